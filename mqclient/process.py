"""The id of this process, without a system call for every message."""

import os

__all__ = ["process_id"]

_id = os.getpid()


def process_id() -> int:
    """The id of this process; it changes in a forked child."""
    return _id


def _renew() -> None:
    global _id
    _id = os.getpid()


os.register_at_fork(after_in_child=_renew)
