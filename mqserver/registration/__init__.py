"""How a broker finds its NameServers, and registers there."""
