"""Commands about the offsets of groups."""
