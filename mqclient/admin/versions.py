"""RocketMQ's names of versions: clients and brokers announce theirs as an ordinal."""

from __future__ import annotations

from collections.abc import Iterator

_EARLIEST = (
    "SNAPSHOT ALPHA1 BETA1 BETA2 BETA3 BETA4 BETA5 BETA6_SNAPSHOT BETA6 BETA7_SNAPSHOT BETA7 "
    "BETA8_SNAPSHOT BETA8 BETA9_SNAPSHOT BETA9 FINAL"
)


def _names() -> Iterator[str]:
    """Every name in order: after 3.0.0 each release follows its snapshot."""
    yield from (f"V3_0_0_{word}" for word in _EARLIEST.split())
    for major in (3, 4, 5):
        for minor in range(10):
            if (major, minor) == (3, 0):
                patches = range(1, 16)
            else:
                patches = range(1 if major == 3 and minor > 2 else 0, 10)
            for patch in patches:
                yield f"V{major}_{minor}_{patch}_SNAPSHOT"
                yield f"V{major}_{minor}_{patch}"
    yield "HIGHER_VERSION"


VERSION_NAMES = tuple(_names())
"""Names by ordinal."""


def version_name(ordinal: int) -> str:
    """The name of a version ordinal, as RocketMQ shows it: 407 is V4_9_7.

    An ordinal beyond the last one known is HIGHER_VERSION.
    """
    return VERSION_NAMES[min(ordinal, len(VERSION_NAMES) - 1)]
