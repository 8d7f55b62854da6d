"""The NameServer, which knows the brokers of each topic."""
