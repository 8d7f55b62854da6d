"""The process and the event loop that a client belongs to, and the errors in another one."""

import os

from mqclient.errors import ClosedError

__all__ = ["forked", "other_loop", "process_id"]

_id = os.getpid()


def process_id() -> int:
    """The id of this process, without a system call; it changes in a forked child."""
    return _id


def forked(made_in: int) -> str:
    """What to say in a forked child of a client that was made in its parent."""
    return (
        f"this client was made in process {made_in} and cannot be used in the forked process "
        f"{_id}; make a new one after the fork"
    )


def other_loop() -> ClosedError:
    """The error for a use of a client on another event loop than its own."""
    return ClosedError(
        "this client was started on another event loop; use it there, or make a client on this one"
    )


def _renew() -> None:
    global _id
    _id = os.getpid()


os.register_at_fork(after_in_child=_renew)
