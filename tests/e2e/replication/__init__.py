"""A master and its slave as processes, and faults of the network and of either process."""
