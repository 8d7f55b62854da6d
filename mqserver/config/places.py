"""Where online changes are saved: never in the operator's own file."""

from __future__ import annotations

from pathlib import Path

from mqserver.config.load import Loaded


def broker_override(loaded: Loaded) -> Path:
    """A broker's file of online changes, in its store."""
    root = Path(str(loaded.values["storePathRootDir"])).expanduser()
    return root / "config" / "broker.override.properties"


def namesrv_override(loaded: Loaded) -> Path:
    """A NameServer's file of online changes, beside its key-value file."""
    home = Path(str(loaded.values["kvConfigPath"])).expanduser().parent
    return home / "config" / "namesrv.override.properties"
