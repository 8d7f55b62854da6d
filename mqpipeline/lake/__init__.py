"""A lake: its folders, files, state and transactions."""
