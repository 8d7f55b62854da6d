"""Transactional messages: their records, and the checks of transactions without an end."""
