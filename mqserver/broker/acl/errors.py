"""What goes wrong in access files and their changes."""

from __future__ import annotations


class AclError(ValueError):
    """An access file or a change of one that cannot be taken; the text never has a secret."""
