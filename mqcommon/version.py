"""The version of the installed distribution, shared by all packages and commands."""

from __future__ import annotations

DISTRIBUTION = "mqstack"
UNKNOWN = "unknown"
"""The version of a source tree that is not installed."""


def version() -> str:
    """The version, like "1.2.3". The import is late because it takes milliseconds."""
    from importlib import metadata

    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return UNKNOWN
