"""What a slave's catch-up leaves in the page cache of its master, where consumers read."""

from __future__ import annotations

import mmap
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from mqstore import Store
from tests.server.cold import COLD_FILES, SETTINGS, cold_folder, log_files, pages_in_memory
from tests.store.test_replication import ends_at, follow, serve

PAGES = SETTINGS.commit_log_file_bytes // mmap.PAGESIZE
"""Of a file of the log."""


def pages_after_a_catch_up(root: Path, hot_memory_percent: int) -> list[int]:
    """Pages in memory of each file of the master's log after a slave has copied all.

    hot_memory_percent: bytes that are further behind the log's end than this share of the memory
    are old.
    """
    with ExitStack() as stack:
        settings = replace(SETTINGS, hot_memory_percent=hot_memory_percent)
        store = stack.enter_context(Store(root, settings))
        as_slave = replace(SETTINGS, role="slave")
        copy = stack.enter_context(Store(root.with_name("slave"), as_slave, create=True))
        _, address = serve(stack, store)
        ends_at(follow(stack, copy, address), store.max_physical_offset())
        return [pages_in_memory(path) for path in log_files(root)]


def test_a_catch_up_leaves_no_old_pages() -> None:
    with cold_folder() as root:
        pages = pages_after_a_catch_up(root, hot_memory_percent=0)
    assert sum(pages[:COLD_FILES]) < PAGES // 8, pages
    assert pages[-1] > 0, "what was sent last stays"


def test_a_catch_up_over_new_messages_drops_none() -> None:
    with cold_folder() as root:
        pages = pages_after_a_catch_up(root, hot_memory_percent=40)
    assert sum(pages[:COLD_FILES]) > PAGES, pages
