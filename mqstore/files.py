"""Files that are replaced as a whole, durably, or not at all."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

# What a file system without hard links answers: FAT says EPERM, others that it is not supported.
_NO_LINKS = (errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP)

MODE = 0o640
"""Permission bits of a new file; a file that is replaced keeps its own."""


def read_own(path: str | os.PathLike[str], bytes_max: int) -> bytes:
    """All of a regular file that is no link, of at most `bytes_max`.

    Raises OSError.
    """
    name = os.fspath(path)
    handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(handle, "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", name)
        if found.st_size > bytes_max:
            what = f"{found.st_size} bytes, at most {bytes_max} are read"
            raise OSError(errno.EFBIG, what, name)
        return file.read(bytes_max)


def replace(path: str | os.PathLike[str], content: bytes, backup: bool = False) -> None:
    """Put `content` into a file: temporary file, fsync, rename, fsync of the directory.

    backup: keep what the file held in `{path}.bak`. Raises OSError.
    """
    name = os.fspath(path)
    temporary = name + ".tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    _remove(temporary)
    with open(os.open(temporary, flags, MODE), "wb") as file:
        _keep_mode(name, file.fileno())
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    if backup and os.path.exists(name):
        _keep_previous(name)
    os.replace(temporary, name)
    sync_directory(os.path.dirname(name) or ".")


def sync_directory(path: str | os.PathLike[str]) -> None:
    """Make the names in a directory durable. Raises OSError."""
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
        os.fchmod(handle, stat.S_IMODE(kept.st_mode))


def _remove(name: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name)
