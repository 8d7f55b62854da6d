"""A lake's folder on any file system of pyarrow: local, S3, GCS, HDFS.

On a local disk, state files are replaced durably and jobs hold locks. On other file systems a
written object becomes visible as a whole, and only the run id in the state prevents two runs from
mixing.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from mqcommon import files
from mqpipeline.errors import BusyError, UsageError

__all__ = ["Lake"]


GCS_RETRY_SECONDS = 60
"""Seconds to retry a call of Google Cloud Storage, unless the URI sets a limit; its default is 15
minutes."""


def _bounded(uri: str) -> str:
    if not uri.startswith(("gs://", "gcs://")) or "retry_limit_seconds=" in uri:
        return uri
    return f"{uri}{'&' if '?' in uri else '?'}retry_limit_seconds={GCS_RETRY_SECONDS}"


class Lake:
    """The folder of a lake; paths are relative to it and use "/".

    where: a path, or a URI such as s3://bucket/lake. Raises UsageError if it cannot be used.
    """

    def __init__(self, where: str) -> None:
        self.where = where if "://" in where else os.path.abspath(where)
        try:
            self.fs, root = fs.FileSystem.from_uri(_bounded(self.where))
            self._root = root.rstrip("/")
            found = self.fs.get_file_info(self._root)
        except (ValueError, OSError) as error:
            raise UsageError(f"lake {where} cannot be used: {error}") from None
        self.is_local = isinstance(self.fs, fs.LocalFileSystem)
        if found.type == fs.FileType.File:
            raise UsageError(f"lake {where} is a file: give a folder, which need not exist yet")
        self.exists = found.type == fs.FileType.Directory

    def full(self, path: str) -> str:
        """The full path on the file system."""
        return f"{self._root}/{path}"

    def read(self, path: str) -> bytes | None:
        """A file's bytes; None if it does not exist."""
        try:
            with self.fs.open_input_stream(self.full(path)) as file:
                content: bytes = file.read()
                return content
        except FileNotFoundError:
            return None

    def replace(self, path: str, content: bytes) -> None:
        """Replace a file's content; a reader sees either the old content or the new one."""
        full = self.full(path)
        self._make_folder(full.rpartition("/")[0])
        if self.is_local:
            files.replace(full, content)
            return
        with self.fs.open_output_stream(full) as file:
            file.write(content)

    def report(self, path: str) -> Any:
        """The JSON that a sink wrote after its tasks had ended."""
        content = self.read(path)
        if content is None:
            raise FileNotFoundError(
                f"{self.full(path)} is missing: do driver and workers see the same files?"
            )
        return json.loads(content)

    def new_parquet(self, path: str, schema: pa.Schema) -> pq.ParquetWriter:
        """A writer for a new Parquet file; creates its folder if it is missing."""
        full = self.full(path)
        self._make_folder(full.rpartition("/")[0])
        # Pass the path, not a stream: the writer closes only a file that it opened itself.
        return pq.ParquetWriter(full, schema, filesystem=self.fs, compression="zstd")

    def finish(self, part: str, path: str) -> int:
        """Flush a written file to the disk and give it its final name; returns its size."""
        if self.is_local:
            files.sync_file(self.full(part))
        self.fs.move(self.full(part), self.full(path))
        size: int = self.fs.get_file_info(self.full(path)).size
        return size

    def move(self, source: str, target: str) -> None:
        """Rename a file; does nothing if it was already moved."""
        full = self.full(target)
        if self.fs.get_file_info(self.full(source)).type == fs.FileType.File:
            self._make_folder(full.rpartition("/")[0])
            self.fs.move(self.full(source), full)
        elif self.fs.get_file_info(full).type != fs.FileType.File:
            raise FileNotFoundError(f"neither {self.full(source)} nor its target {full} exists")

    def sync(self, folders: set[str]) -> None:
        """Flush these directories, if the lake is on a local disk."""
        for folder in folders if self.is_local else ():
            files.sync_directory(self.full(folder))

    def delete(self, path: str) -> None:
        """Delete a file, if it exists."""
        if self.fs.get_file_info(self.full(path)).type == fs.FileType.File:
            self.fs.delete_file(self.full(path))

    def delete_folder(self, path: str) -> None:
        """Delete a folder with its content, if it exists."""
        if self.fs.get_file_info(self.full(path)).type == fs.FileType.Directory:
            self.fs.delete_dir(self.full(path))

    def names(self, folder: str) -> list[str]:
        """The names of the files in a folder; empty if the folder does not exist."""
        chosen = fs.FileSelector(self.full(folder), allow_not_found=True)
        found = self.fs.get_file_info(chosen)
        return sorted(info.base_name for info in found if info.type == fs.FileType.File)

    def walk(self, suffix: str) -> Iterator[tuple[str, int]]:
        """Path and size of all files that end with `suffix`, without hidden folders."""
        chosen = fs.FileSelector(self._root, recursive=True, allow_not_found=True)
        for info in sorted(self.fs.get_file_info(chosen), key=lambda info: info.path):
            path = info.path[len(self._root) + 1 :]
            is_hidden = any(part[:1] in ("_", ".") for part in path.split("/"))
            if info.type == fs.FileType.File and path.endswith(suffix) and not is_hidden:
                yield path, info.size

    @contextmanager
    def locked(self, path: str, busy: str, shared: bool = False) -> Iterator[None]:
        """Hold a lock, which ends with the process; does nothing on file systems without locks.

        busy: the text of the BusyError if another process holds the lock.
        """
        if not self.is_local:
            yield
            return
        full = Path(self.full(path))
        self._make_folder(str(full.parent))
        with open(full, "ab", opener=files.opener) as file:
            if not _lock(file.fileno(), fcntl.LOCK_SH if shared else fcntl.LOCK_EX):
                raise BusyError(busy)
            yield

    def _make_folder(self, full: str) -> None:
        if self.is_local:
            files.make_folders(full)
        else:
            self.fs.create_dir(full)


def _lock(descriptor: int, mode: int) -> bool:
    """Lock a file; False if another process has locked it."""
    try:
        fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
