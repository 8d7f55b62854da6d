"""Message trace: records of what became of messages."""
