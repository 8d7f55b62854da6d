"""Commands about saved contexts."""
