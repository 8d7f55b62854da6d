"""Commands about brokers and clusters."""
