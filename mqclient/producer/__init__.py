"""Producers: choose a queue, send, retry, batch, and send in transactions."""
