"""RocketMQ's servers: NameServer and broker.

`Standalone` runs both in one process; `mqserver.testing` has helpers for tests. The commands are in
`mqserver.cli`. Names are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mqserver.embedded.standalone import Standalone

    __version__: str

__all__ = ["Standalone"]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from mqcommon.version import version

        return version()
    if name == "Standalone":
        from mqserver.embedded.standalone import Standalone

        return Standalone
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
