"""Saved contexts: NameServers and files of a cluster under a name, in one file of the user.

The file is `mqadmin/contexts.json` in XDG_CONFIG_HOME, with mode 0600. It holds no secret: an
account is the path of a tools.yml, or the names of environment variables.

A command line uses the first of these: the context of `--context`, of which other options replace
single values; `-n`, without any context; the context of MQADMIN_CONTEXT; NAMESRV_ADDR, without any
context; the current context of `mqadmin context use`. So `-n` never sends a context's account to
another cluster by mistake.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from mqcommon import files
from mqcommon.cli.running import WrongArguments

__all__ = [
    "CONTEXT_VARIABLE", "Context", "Contexts", "changing", "check_name", "in_use", "load", "named",
]  # fmt: skip

CONTEXT_VARIABLE = "MQADMIN_CONTEXT"
"""Environment variable that names a context, as --context does."""
CONTEXTS_MAX = 1_000
FILE_BYTES_MAX = 1 << 20
FILE_MODE = 0o600
FOLDER_MODE = 0o700
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class Context(msgspec.Struct, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """A cluster as the command line would name it; an empty text is an absent option.

    credentials, tls_config: paths. credentials_env: names of the environment variables with the
    access key, the secret key and optionally the security token.
    """

    namesrv: str
    credentials: str = ""
    credentials_env: list[str] = []
    tls_config: str = ""
    address_map: str = ""


class Contexts(msgspec.Struct, forbid_unknown_fields=True):
    """The whole file. current: the name of the current context, empty if there is none."""

    version: int = 1
    current: str = ""
    contexts: dict[str, Context] = {}


def path() -> Path:
    """The file, or the target of a link in its place. A user without a home folder has none: then
    the path is not absolute.

    XDG_CONFIG_HOME counts if it is absolute, as the XDG specification says.
    """
    home = os.environ.get("XDG_CONFIG_HOME", "")
    folder = Path(home) if os.path.isabs(home) else Path(os.path.expanduser("~")) / ".config"
    file = folder / "mqadmin" / "contexts.json"
    return Path(os.path.realpath(file)) if file.is_absolute() else file


def check_name(name: str) -> str:
    """A new context's name; raises WrongArguments."""
    if not _NAME.fullmatch(name):
        raise WrongArguments(
            f"{name!r} cannot name a context: use up to 64 letters, digits, '.', '_' and '-'"
        )
    return name


def load() -> Contexts:
    """All contexts. Raises WrongArguments with the file's path if the file cannot be used."""
    file = path()
    if not file.is_absolute():
        return Contexts()
    try:
        _check_owner(file)
        found = msgspec.json.decode(files.read_own(file, FILE_BYTES_MAX), type=Contexts)
    except (FileNotFoundError, NotADirectoryError):  # users of services have such a home folder
        return Contexts()
    except OSError as error:
        raise WrongArguments(f"cannot read the contexts in {file}: {error.strerror}") from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise WrongArguments(
            f"{file} is no file of contexts: {error}; correct it, or delete it and add them again"
        ) from error
    if found.version != 1:
        raise WrongArguments(
            f"{file} has version {found.version}, this mqadmin reads version 1; use a newer mqadmin"
        )
    return found


def named(contexts: Contexts, name: str) -> Context:
    """One context; raises WrongArguments that lists the known ones."""
    if name in contexts.contexts:
        return contexts.contexts[name]
    known = ", ".join(sorted(contexts.contexts)) or "none"
    raise WrongArguments(f"there is no context {name!r}; saved contexts: {known}")


@contextmanager
def changing() -> Iterator[Contexts]:
    """The contexts, which are saved after the block; one process at a time."""
    file = path()
    if not file.is_absolute():
        raise WrongArguments("cannot save contexts without a home folder; set XDG_CONFIG_HOME")
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
        folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise WrongArguments(f"cannot save contexts in {file}: {error.strerror}") from error
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        contexts = load()
        yield contexts
        _save(file, contexts)
    finally:
        os.close(folder)


def in_use(name: str | None, *, has_address: bool) -> tuple[str, Context] | None:
    """The name and context that a command line uses, if any.

    name: of --context. has_address: the command line has -n. Raises WrongArguments for an unknown
    name or an unusable file.
    """
    if not name and has_address:
        return None
    name = name or os.environ.get(CONTEXT_VARIABLE)
    if not name and os.environ.get("NAMESRV_ADDR"):
        return None
    contexts = load()
    name = name or contexts.current
    return (name, named(contexts, name)) if name else None


def _check_owner(file: Path) -> None:
    """Refuse a file that others may write: it says which servers get this user's requests."""
    if stat.S_IMODE(file.stat().st_mode) & (stat.S_IWGRP | stat.S_IWOTH):
        raise WrongArguments(f"{file} may be written by other users; run chmod 600 {file}")


def _save(file: Path, contexts: Contexts) -> None:
    if len(contexts.contexts) > CONTEXTS_MAX:
        raise WrongArguments(f"{file} would have over {CONTEXTS_MAX} contexts; remove some")
    content = msgspec.json.format(msgspec.json.encode(contexts), indent=2) + b"\n"
    try:
        if file.exists():
            file.chmod(FILE_MODE)  # a replaced file keeps its mode
        files.replace(file, content, FILE_MODE)
    except OSError as error:
        raise WrongArguments(f"cannot save contexts in {file}: {error.strerror}") from error
