"""Consumers: pull, hand to the user's handler, acknowledge, share queues with the group."""
