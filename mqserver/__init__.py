"""mqserver."""
