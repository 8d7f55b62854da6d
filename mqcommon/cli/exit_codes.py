"""Exit codes of all commands."""

OK = 0
FAILED = 1
USAGE = 2
UNREACHABLE = 3
"""No server answered."""
POISONED = 3
"""From `mqserver`: a write or fsync failed, and the store refuses further writes."""
DENIED = 4
"""Access control refused the account."""
DAMAGED = 5
"""Damage was found in a store."""
DEFECT = 70
"""A defect of this project, not a mistake of the user."""
INTERRUPTED = 130
"""Ended by Ctrl-C: 128 plus the number of SIGINT."""
