"""Transactional messages: what they write, and the checks of those nobody ended (server.md B.6)."""
