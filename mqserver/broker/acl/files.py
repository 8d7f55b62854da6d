"""The access files on the disk: finds, reads and writes them.

As in RocketMQ, the access files are `conf/plain_acl.yml` in its home directory, and every `.yml`
and `.yaml` file below `conf/acl`. A file is read with YAML's safe loader up to a limit of its size.
A file is replaced atomically, in the form of RocketMQ's own YAML writer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from mqcommon import files
from mqserver.broker.acl.accounts import Account, read_account, scalar
from mqserver.broker.acl.addresses import Pattern, patterns
from mqserver.broker.acl.errors import AclError
from mqserver.runtime.watch import Stamp, stamp

FILE_BYTES_MAX = 1 << 20
"""Largest access file."""
FILES_MAX = 256
"""Most access files."""
_DEPTH_MAX = 8
_NESTING_MAX = 32
"""Deepest nesting of lists and mappings. libyaml's loader recurses, and a deep file would overflow
its stack and end the process."""
_SECRET_MODE = 0o600
_SUFFIXES = (".yml", ".yaml")
_TOOLS = "tools.yml"
"""The file with an administrator's own credentials, which RocketMQ ignores."""


Lines = dict[tuple[str | int, ...], int]
"""The line of each value of a file, by the keys and indexes that lead to it."""


@dataclass(frozen=True, slots=True)
class Version:
    """The version of a file (RocketMQ's `DataVersion`). timestamp: ms since the epoch."""

    counter: int = 0
    timestamp: int = 0

    def plain(self) -> dict[str, int]:
        """The version in the form of the file and of replies."""
        return {"counter": self.counter, "timestamp": self.timestamp}


@dataclass(frozen=True, slots=True)
class AclFile:
    """The content of one file. lines: where its values are. data: the whole content, for writing
    the file again."""

    path: Path
    accounts: tuple[Account, ...] = ()
    white: tuple[Pattern, ...] = ()
    version: Version = Version()
    lines: Lines = field(default_factory=dict, repr=False)
    data: dict[str, Any] = field(default_factory=dict, repr=False)


class AclPaths:
    """The paths of a broker's access files.

    home: RocketMQ's home directory. plain: path of the main file, relative to the home.
    """

    def __init__(self, home: Path, plain: str) -> None:
        self.home = home.absolute()
        self.plain = self.home / plain
        self.folder = self.home / "conf" / "acl"

    def paths(self) -> list[Path]:
        """Every access file, in RocketMQ's order: the files of the folder come first."""
        found = sorted(self._below(self.folder, 0))
        if self.plain.exists() and self.plain not in found:
            found.append(self.plain)
        if len(found) > FILES_MAX:
            raise AclError(f"{self.folder} has {len(found)} access files; the limit is {FILES_MAX}")
        return found

    def stamps(self) -> dict[Path, Stamp]:
        """The stamp of each file, which stays equal as long as the file does not change."""
        found = ((path, stamp(path)) for path in self.paths())
        return {path: at for path, at in found if at is not None}

    def ensure(self) -> None:
        """Create an empty main file if it is missing, as RocketMQ does."""
        if not self.plain.exists():
            files.make_folders(self.plain.parent)
            self.plain.touch(_SECRET_MODE)

    def below(self, name: str) -> Path:
        """The access file with this path below `conf/acl`; the main file for "". Raises AclError
        for a path that leads elsewhere, or that is no access file."""
        if not name:
            return self.plain
        path = Path(name)
        is_within = not path.is_absolute() and ".." not in path.parts
        if not is_within or path.suffix not in _SUFFIXES or path.name == _TOOLS:
            raise AclError(f"{name[:255]!r} is no path of an access file below {self.folder}")
        return self.folder / path

    def owns(self, path: Path) -> bool:
        """Whether a path leads to one of these files, however the path is spelled."""
        try:
            resolved = path.resolve()
        except (OSError, RuntimeError, ValueError):  # a loop of links, a NUL in the name
            return False
        return any(resolved == known.resolve() for known in self.paths())

    def _below(self, folder: Path, depth: int) -> Iterator[Path]:
        if depth > _DEPTH_MAX or not folder.is_dir():
            return
        for entry in folder.iterdir():
            if entry.name.endswith(_SUFFIXES):
                if entry.name != _TOOLS and entry.is_file():
                    yield entry
            elif entry.is_dir():
                yield from self._below(entry, depth + 1)


def read(path: Path, now_ms: int) -> AclFile:
    """Read one file. Raises AclError that names the file and the error.

    now_ms: time for the version of a file that has no version.
    """
    try:
        data, lines = _loaded(path)
        return parse(path, data, now_ms, lines)
    except AclError as error:
        raise AclError(f"{path}: {error}") from None


def write(path: Path, data: dict[str, Any]) -> None:
    """Replace a file atomically, so that no reader sees half of it. Raises AclError, OSError."""
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    try:
        text = yaml.dump(data, None, dumper, default_flow_style=False, sort_keys=False,
                         allow_unicode=True)  # fmt: skip
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        # Unknown keys of a file are kept, but YAML cannot write every value.
        raise AclError(f"{path} cannot be written: {type(error).__name__}") from None
    if len(text.encode()) > FILE_BYTES_MAX:
        raise AclError(f"{path} would be larger than {FILE_BYTES_MAX} bytes")
    path = path.resolve()  # a link stays a link
    files.replace(path, text.encode(), mode=_SECRET_MODE)


def _loaded(path: Path) -> tuple[dict[str, Any], Lines]:
    with path.open("rb") as file:
        text = file.read(FILE_BYTES_MAX + 1)
    if len(text) > FILE_BYTES_MAX:
        raise AclError(f"the file is larger than {FILE_BYTES_MAX} bytes")
    _check_shape(text)
    try:
        data = yaml.load(text, _loader())
        root = yaml.compose(text, _loader())
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise AclError(f"the file is not YAML: {_where(error)}") from None
    if data is None:
        return {}, {}
    lines: Lines = {}
    _note_lines(root, (), lines)
    if not isinstance(data, dict):
        raise AclError(f"the file must be a mapping, not a {type(data).__name__}")
    return data, lines


def _note_lines(node: yaml.Node | None, at: tuple[str | int, ...], lines: Lines) -> None:
    """Note the line of each value. Raises AclError for a key that a mapping has twice, of which
    YAML would silently take the last one."""
    if node is None:
        return
    lines[at] = node.start_mark.line + 1
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            _note_lines(item, (*at, index), lines)
    elif isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            name = str(key.value)
            if name in seen:  # the text may be a secret
                line = key.start_mark.line + 1
                raise AclError(f"line {line}: the mapping has this key already")
            seen.add(name)
            _note_lines(value, (*at, name), lines)


def _check_shape(text: bytes) -> None:
    """Refuse small files that would become huge or very deep when they are loaded."""

    starts = (
        yaml.BlockSequenceStartToken,
        yaml.BlockMappingStartToken,
        yaml.FlowSequenceStartToken,
        yaml.FlowMappingStartToken,
    )
    ends = (yaml.BlockEndToken, yaml.FlowSequenceEndToken, yaml.FlowMappingEndToken)
    depth = 0
    for token in _tokens(text):
        if isinstance(token, yaml.AliasToken):
            raise AclError("the file has a YAML alias (*name), which is not allowed: a few of them "
                           "make gigabytes")  # fmt: skip
        depth += isinstance(token, starts) - isinstance(token, ends)
        if depth > _NESTING_MAX:
            raise AclError(f"lists and mappings are nested deeper than {_NESTING_MAX} levels")


def _loader() -> type[yaml.SafeLoader]:
    """libyaml's safe loader, which is many times faster, if PyYAML was built with it."""
    found: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return found


def _tokens(text: bytes) -> Iterator[object]:

    try:
        yield from yaml.scan(text, Loader=_loader())
    except (yaml.YAMLError, UnicodeDecodeError, ValueError):
        return  # the loader reports the error better


def _where(error: BaseException) -> str:
    """The place of a YAML error, without the text there, which may be a secret."""
    mark = getattr(error, "problem_mark", None)
    place = f"line {mark.line + 1}, column {mark.column + 1}" if mark else type(error).__name__
    problem = getattr(error, "problem", None)
    words = problem if isinstance(problem, str) and "'" not in problem else ""
    return f"{place} {words}".strip()


def parse(path: Path, data: dict[str, Any], now_ms: int, lines: Lines | None = None) -> AclFile:
    """Parse the data of a file. Raises AclError if RocketMQ or this broker could not use it.

    lines: where the values are; None if they come from no file.
    """
    lines = lines or {}
    white = [pattern for entry in _list(data, "globalWhiteRemoteAddresses")
             for pattern in patterns(scalar({"address": entry}, "address"))]  # fmt: skip
    accounts = []
    for number, entry in enumerate(_list(data, "accounts"), 1):
        try:
            accounts.append(read_account(entry))
        except AclError as error:
            at = ("accounts", number - 1, *error.at)
            where = f"account {number}" + (f", line {lines[at]}" if at in lines else "")
            raise AclError(f"{where}: {error}") from None
    return AclFile(path, tuple(accounts), tuple(white), _version(data, now_ms), lines, data)


def _version(data: dict[str, Any], now_ms: int) -> Version:
    versions = _list(data, "dataVersion")
    if not versions:
        return Version(0, now_ms)
    first = versions[0]
    if not isinstance(first, dict):
        raise AclError("dataVersion must be a list of mappings")
    counter, timestamp = first.get("counter", 0), first.get("timestamp", 0)
    if not isinstance(counter, int) or not isinstance(timestamp, int):
        raise AclError("dataVersion needs a whole counter and a whole timestamp")
    if not all(-(2**63) <= number < 2**63 for number in (counter, timestamp)):
        raise AclError("dataVersion has a number of over 64 bits")
    return Version(counter, timestamp)


def _list(data: dict[str, Any], name: str) -> list[Any]:
    value = data.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise AclError(f"{name} must be a list, not a {type(value).__name__}")
    return value
