"""RocketMQ's statistics of a broker: counters, and their sums over the last periods."""
