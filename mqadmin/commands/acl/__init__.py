"""Commands about accounts and permissions."""
