"""The error for bad access files and bad changes of them."""

from __future__ import annotations


class AclError(ValueError):
    """An access file, or a change of one, is not valid. The text never contains a secret.

    at: the keys and indexes from an account's entry to the wrong value.
    """

    def __init__(self, text: str, *at: str | int) -> None:
        super().__init__(text)
        self.at = at
