"""The id of this process, without a system call for every message."""

import os

__all__ = ["forked", "process_id"]

_id = os.getpid()


def process_id() -> int:
    """The id of this process; it changes in a forked child."""
    return _id


def forked(made_in: int) -> str:
    """What to say in a forked child of a client that was made in its parent."""
    return (
        f"this client was made in process {made_in} and cannot be used in the forked process "
        f"{_id}; make a new one after the fork"
    )


def _renew() -> None:
    global _id
    _id = os.getpid()


os.register_at_fork(after_in_child=_renew)
