"""The error for bad access files and bad changes of them."""

from __future__ import annotations


class AclError(ValueError):
    """An access file, or a change of one, is not valid. The text never contains a secret."""
