"""Exit codes of all commands."""

OK = 0
FAILED = 1
USAGE = 2
UNREACHABLE = 3
"""No server answered."""
POISONED = 3
"""Of `mqserver`: a write or fsync failed, and the store takes no more."""
DENIED = 4
"""Access control refused the account."""
DAMAGED = 5
"""Damage was found in a store."""
DEFECT = 70
"""A defect of this project, not a mistake of the user."""
INTERRUPTED = 130
"""Ended by Ctrl-C: 128 and the number of SIGINT."""
