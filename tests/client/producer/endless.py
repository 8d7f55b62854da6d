"""A `Linger` whose messages leave only at a limit, a flush or a close.

Programs cannot set such a long time.
"""

from mqclient import Linger

LONG = 60.0
"""Seconds that a message waits for others."""


def endless(**options: int) -> Linger:
    """Make such a `Linger`. options: its limits."""
    made = Linger(**options)  # type: ignore[arg-type]
    object.__setattr__(made, "wait", LONG)
    return made
