"""Replaces files atomically and durably.

Every file that Python replaces is written here: `StateFile` for the state of a store or a server,
`replace` and `atomic_file` for all others.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, TypeVar

from mqcommon import _core

# Errors of a file system without hard links: EPERM on FAT, "not supported" elsewhere.
_NO_LINKS = (errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP)

_mode = 0o640
T = TypeVar("T")


class StateFile:
    """A file that is replaced atomically, like the state files of a store.

    The previous copy stays in `{path}.bak`, the checksum in `{own}/state`; unusable content goes to
    `{own}/quarantine`. Links are not followed. own: default is the folder `mqstack` next to the
    file.
    """

    def __init__(
        self, path: str | os.PathLike[str], own: str | os.PathLike[str] | None = None
    ) -> None:
        self.path = os.fspath(path)
        folder, self._name = os.path.split(self.path)
        self._files = _core.StateFiles(folder or ".", own or os.path.join(folder, "mqstack"))

    def load(self, check: Callable[[bytes], T]) -> T | None:
        """The result of `check` for the file, or for its previous copy; None if neither exists.

        check: raises if the bytes are not valid. Raises StoreDamaged if neither copy can be used,
        OSError if a file cannot be read.
        """
        return self._files.load(self._name, check)

    def save(self, content: bytes) -> None:
        """Replace the file, durably. Raises OSError."""
        self._files.save(self._name, content)

    def set_aside(self, entries: list[tuple[str, str, str]]) -> None:
        """Log and save entries that cannot be used; each is a name, the reason and its text."""
        self._files.set_aside(self._name, entries)


def read_own(path: str | os.PathLike[str], bytes_max: int) -> bytes:
    """Read a regular file of at most `bytes_max` bytes; links are refused.

    Raises OSError.
    """
    name = os.fspath(path)
    handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(handle, "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", name)
        if found.st_size > bytes_max:
            what = f"it has {found.st_size} bytes, but at most {bytes_max} are allowed"
            raise OSError(errno.EFBIG, what, name)
        return file.read(bytes_max)


def replace(
    path: str | os.PathLike[str], content: bytes, mode: int | None = None, backup: bool = False
) -> None:
    """Replace a file's content: temporary file, fsync, rename, fsync of the directory.

    mode: permission bits of a new file, default `new_file_mode()`; a replaced file keeps its own.
    backup: keep the old content in `{path}.bak`. Raises OSError.
    """
    with atomic_file(path, mode, backup) as file:
        file.write(content)


@contextmanager
def atomic_file(
    path: str | os.PathLike[str],
    mode: int | None = None,
    backup: bool = False,
    temporary: str | None = None,
) -> Iterator[IO[bytes]]:
    """Write a new file that gets the name `path`, durably, if the block ends without an exception.

    mode, backup: see `replace`. temporary: its path until then, default `{path}.tmp`; an existing
    file with this path is removed. Raises OSError.
    """
    name = os.fspath(path)
    part = temporary or name + ".tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    _remove(part)
    try:
        with open(os.open(part, flags, new_file_mode() if mode is None else mode), "wb") as file:
            _keep_mode(name, file.fileno())
            yield file
            file.flush()
            os.fsync(file.fileno())
        if backup and os.path.exists(name):
            _keep_previous(name)
        os.replace(part, name)
    except BaseException:
        with suppress(OSError):  # the caller must get the first error
            os.unlink(part)
        raise
    sync_directory(os.path.dirname(name) or ".")


def new_file_mode() -> int:
    """Permission bits of new files; 0o640 unless `set_mode` changed them."""
    return _mode


def set_mode(mode: int) -> None:
    """Set the permission bits of all new files of this process, also of the compiled store.

    Users with access to such a file may also enter new folders. The process's umask is set to
    match, because the usual umask would remove the group's write permission.
    """
    _use_mode(mode)
    os.umask(0o777 & ~_folder_mode())


def restore_mode(mode: int, umask: int) -> None:
    """Undo `set_mode`. mode, umask: the values from before."""
    _use_mode(mode)
    os.umask(umask)


def _use_mode(mode: int) -> None:
    global _mode
    _mode = mode
    _core.set_file_mode(mode)


def make_folders(path: str | os.PathLike[str]) -> None:
    """Create a folder and its missing parents, durably. Raises OSError."""
    name = os.fspath(path) or "."
    if os.path.isdir(name):
        return
    above = os.path.dirname(name.rstrip("/")) or "."
    make_folders(above)
    with suppress(FileExistsError):
        os.mkdir(name, _folder_mode())
    sync_directory(above)


def opener(path: str, flags: int) -> int:
    """An `opener` for `open` that creates files with `new_file_mode()`."""
    return os.open(path, flags, _mode)


def _folder_mode() -> int:
    return _mode | (_mode & 0o444) >> 2 | (_mode & 0o222) >> 1


def sync_file(path: str | os.PathLike[str]) -> None:
    """Flush the bytes of a file that another library wrote. Raises OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_directory(path: str | os.PathLike[str]) -> None:
    """Flush a directory, so that new and removed names in it are durable. Raises OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _keep_previous(name: str) -> None:
    link = name + ".bak.tmp"
    _remove(link)
    try:
        os.link(name, link, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        os.replace(name, name + ".bak")
    else:
        os.replace(link, name + ".bak")


def _keep_mode(name: str, handle: int) -> None:
    try:
        kept = os.lstat(name)
    except FileNotFoundError:
        return
    if stat.S_ISREG(kept.st_mode):
        if os.geteuid() == 0:
            os.fchown(handle, kept.st_uid, kept.st_gid)
        os.fchmod(handle, stat.S_IMODE(kept.st_mode))


def _remove(name: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name)
