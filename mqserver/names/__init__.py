"""The NameServer: which broker has which topic (server.md A)."""
