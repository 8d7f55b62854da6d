"""Opens the store of a broker, and logs the end of the last run and the extent of the log."""

from __future__ import annotations

import logging
import os
import time

from mqserver.config.settings import BrokerSettings
from mqstore import Settings, Store

log = logging.getLogger("mqserver.broker")
ABORT = "abort"
"""The file that exists in a store from its opening to its clean stop."""


def open_store(settings: BrokerSettings, store_settings: Settings) -> Store:
    """Open the store at `storePathRootDir`. Raises what `Store` raises."""
    root = settings.store_path_root_dir
    crashed = os.path.exists(os.path.join(root, ABORT))
    began = time.monotonic()
    store = Store(root, store_settings, create=True)
    low, high = store.min_physical_offset(), store.max_physical_offset()
    what = "recovered from a crash of the last run" if crashed else "opened"
    log.info(
        "store %s %s in %.3f s: the log has bytes %d to %d",
        root,
        what,
        time.monotonic() - began,
        low,
        high,
    )
    return store
