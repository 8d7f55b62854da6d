"""mqclient."""
