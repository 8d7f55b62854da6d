"""The NameServer: which broker has which topic."""
