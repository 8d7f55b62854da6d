"""A store whose messages are on the disk and not in memory."""

from __future__ import annotations

import ctypes
import mmap
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mqstore import Settings, Store
from tests.waiting import until

BODY = os.urandom(300_000)
"""Three fill a file."""
COUNT = 16
"""More files than are cold: when it is opened a store looks into the last three."""
COLD_FILES = 3
SETTINGS = Settings(
    commit_log_file_bytes=1 << 20,
    index_slots=100,
    index_entries=400,
    allocate_step_bytes=1 << 20,
    min_free_bytes=1,
)
FOLDERS = (Path(tempfile.gettempdir()), Path("/var/tmp"), Path(__file__).parent.parent.parent)
"""Candidates; the first one whose file system is not in memory is used."""
TRIES = 20


def pages_in_memory(path: Path) -> int:
    """Number of a file's pages in the page cache; the query itself loads none."""
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as whole:
        pages = (ctypes.c_ubyte * (-(-len(whole) // mmap.PAGESIZE)))()
        at = ctypes.c_char.from_buffer(whole)
        mincore = ctypes.CDLL(None, use_errno=True).mincore
        mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
        failed = mincore(ctypes.addressof(at), len(whole), pages)
        del at  # a map that is referred to cannot be closed
    assert not failed, os.strerror(ctypes.get_errno())
    return sum(page & 1 for page in pages)


def forget(path: Path) -> bool:
    """Drop a file's pages from the page cache; true if none is left. Pages of live maps stay."""
    with path.open("rb") as file:
        os.fsync(file.fileno())  # only clean ones go
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return pages_in_memory(path) == 0


@contextmanager
def folder_on_disk() -> Iterator[Path]:
    """A new folder whose files can be thrown out of memory; skips where there is none."""
    if not hasattr(os, "posix_fadvise"):
        pytest.skip("this system throws nothing out of memory on demand")
    for parent in FOLDERS:
        with tempfile.TemporaryDirectory(dir=parent) as name:
            probe = Path(name) / "probe"
            probe.write_bytes(bytes(1 << 20))
            if any(forget(probe) for _ in range(TRIES)):
                yield Path(name)
                return
    pytest.skip(f"the file systems of {', '.join(map(str, FOLDERS))} keep files in memory (tmpfs)")


@contextmanager
def cold_folder() -> Iterator[Path]:
    """The folder of a closed store with `COUNT` messages in queue 0 of "T"; the first
    `COLD_FILES` files of its log are not in memory."""
    with folder_on_disk() as folder:
        root = folder / "store"
        with Store(root, SETTINGS, create=True) as written:
            for _ in range(COUNT):
                assert written.put("T", BODY, queue_id=0).status == "PUT_OK"
            assert until(lambda: written.max_offset("T", 0) == COUNT)
        old = log_files(root)[:COLD_FILES]
        assert until(lambda: all(forget(path) for path in old)), "pages stay in memory"
        yield root


@contextmanager
def cold_store() -> Iterator[Store]:
    """The store of `cold_folder`, opened again: the first store's maps may keep pages in memory."""
    with cold_folder() as root, Store(root, SETTINGS) as store:
        # It looks at the head of each file.
        old = log_files(root)[:COLD_FILES]
        assert all(pages_in_memory(path) * mmap.PAGESIZE < len(BODY) // 2 for path in old)
        yield store


def log_files(root: Path) -> list[Path]:
    """The files of a store's log, the oldest first."""
    return sorted((root / "commitlog").iterdir())
