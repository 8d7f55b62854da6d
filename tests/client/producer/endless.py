"""A linger that only a limit, a flush or a close ends; programs may not wait for so long."""

from mqclient import Linger

LONG = 60.0
"""How long it waits, in seconds."""


def endless(**options: int) -> Linger:
    """Make one. options: its limits."""
    made = Linger(**options)  # type: ignore[arg-type]
    object.__setattr__(made, "wait", LONG)
    return made
