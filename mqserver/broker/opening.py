"""Opens the store of a broker and logs what was found: how the last run ended, what is there."""

from __future__ import annotations

import logging
import os
import time

from mqserver.config.settings import BrokerSettings
from mqstore import Settings, Store

log = logging.getLogger("mqserver.broker")
ABORT = "abort"
"""The file that stands in a store from its opening to its orderly end."""


def open_store(settings: BrokerSettings, store_settings: Settings) -> Store:
    """The store of `storePathRootDir`; what is raised is `Store`'s."""
    root = settings.store_path_root_dir
    crashed = os.path.exists(os.path.join(root, ABORT))
    began = time.monotonic()
    store = Store(root, store_settings, create=True)
    low, high = store.min_physical_offset(), store.max_physical_offset()
    what = "recovered, the last run did not stop cleanly" if crashed else "opened"
    log.info(
        "store %s %s in %.3f s: log from byte %d to %d",
        root,
        what,
        time.monotonic() - began,
        low,
        high,
    )
    return store
