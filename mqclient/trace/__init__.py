"""Message trace: records of sends and deliveries."""
