"""RocketMQ's statistics of a broker: counted items, and what they were in the last periods."""
