"""Commands about single messages."""
