"""Transactional messages: their records, and the checks of unfinished transactions."""
