"""Commands about NameServers."""
