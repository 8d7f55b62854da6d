"""Transactional sends: half messages, their ends, and the answers to brokers' checks."""
