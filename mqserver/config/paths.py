"""The files that save online changes; the servers never write to the operator's own file."""

from __future__ import annotations

import os

from mqserver.config.loaded import Loaded


def broker_override(loaded: Loaded) -> str:
    """A broker's file of online changes, in its store directory."""
    root = os.path.expanduser(str(loaded.values["storePathRootDir"]))
    return os.path.join(root, "config", "broker.override.properties")


def namesrv_override(loaded: Loaded) -> str:
    """A NameServer's file of online changes, beside its key-value file."""
    home = os.path.dirname(os.path.expanduser(str(loaded.values["kvConfigPath"])))
    return os.path.join(home, "config", "namesrv.override.properties")
