"""Consumers: pull, call the user's handler, acknowledge, share queues with the group."""
