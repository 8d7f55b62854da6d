"""Commands that write a cluster's state to files."""
