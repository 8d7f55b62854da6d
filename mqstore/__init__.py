"""mqstore."""
