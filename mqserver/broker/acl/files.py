"""The access files on the disk: which they are, how they are read, how they are written.

RocketMQ's layout: `conf/plain_acl.yml` under its home, and every `.yml` and `.yaml` below
`conf/acl`. Reading is a safe load of a bounded file; writing is atomic, and in the form that
RocketMQ's own YAML writer has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mqserver.broker.acl.accounts import Account, read_account, scalar
from mqserver.broker.acl.addresses import Pattern, patterns
from mqserver.broker.acl.errors import AclError
from mqserver.watch import Stamp, stamp
from mqstore import files

if TYPE_CHECKING:
    import yaml

FILE_BYTES_MAX = 1 << 20
"""A larger access file is refused."""
FILES_MAX = 256
"""More access files than this are refused."""
_DEPTH_MAX = 8
_NESTING_MAX = 32
"""Lists and mappings within each other; libyaml's loader recurses and ends the process."""
_SECRET_MODE = 0o600
_TOOLS = "tools.yml"
"""The administrator's own credentials, which RocketMQ passes over."""


@dataclass(frozen=True, slots=True)
class Version:
    """RocketMQ's DataVersion of a file. timestamp: ms since the epoch."""

    counter: int = 0
    timestamp: int = 0

    def plain(self) -> dict[str, int]:
        """As it is written into the file and into replies."""
        return {"counter": self.counter, "timestamp": self.timestamp}


@dataclass(frozen=True, slots=True)
class AclFile:
    """What one file says. data: its whole content, for rewriting."""

    path: Path
    accounts: tuple[Account, ...] = ()
    white: tuple[Pattern, ...] = ()
    version: Version = Version()
    data: dict[str, Any] = field(default_factory=dict, repr=False)


class Places:
    """Where the access files of a broker are.

    home: RocketMQ's home directory. plain: path of the main file, from there.
    """

    def __init__(self, home: Path, plain: str) -> None:
        self.home = home.absolute()
        self.plain = self.home / plain
        self.folder = self.home / "conf" / "acl"

    def paths(self) -> list[Path]:
        """Every access file, those of the folder first, as RocketMQ reads them."""
        found = sorted(self._below(self.folder, 0))
        if self.plain.exists() and self.plain not in found:
            found.append(self.plain)
        if len(found) > FILES_MAX:
            raise AclError(f"{len(found)} access files in {self.folder}, at most {FILES_MAX}")
        return found

    def stamps(self) -> dict[Path, Stamp]:
        """Each file's stamp: equal as long as nothing changed."""
        found = ((path, stamp(path)) for path in self.paths())
        return {path: at for path, at in found if at is not None}

    def ensure(self) -> None:
        """Create the main file, empty, if it is missing, as RocketMQ does."""
        if not self.plain.exists():
            files.make_folders(self.plain.parent)
            self.plain.touch(_SECRET_MODE)

    def owns(self, path: Path) -> bool:
        """Whether a path, however it is spelled, is one of these files."""
        try:
            resolved = path.resolve()
        except (OSError, RuntimeError, ValueError):  # a loop of links, a NUL in the name
            return False
        return any(resolved == known.resolve() for known in self.paths())

    def _below(self, folder: Path, depth: int) -> Iterator[Path]:
        if depth > _DEPTH_MAX or not folder.is_dir():
            return
        for entry in folder.iterdir():
            if entry.name.endswith((".yml", ".yaml")):
                if entry.name != _TOOLS and entry.is_file():
                    yield entry
            elif entry.is_dir():
                yield from self._below(entry, depth + 1)


def read(path: Path, now_ms: int) -> AclFile:
    """Read one file; AclError names the file and what is wrong. An empty one says nothing.

    now_ms: the version's time of a file that has none.
    """
    try:
        return parse(path, _loaded(path), now_ms)
    except AclError as error:
        raise AclError(f"{path}: {error}") from None


def write(path: Path, data: dict[str, Any]) -> None:
    """Replace a file as a whole: nobody ever reads half of it. Raises AclError, OSError."""
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    try:
        text = yaml.dump(data, None, dumper, default_flow_style=False, sort_keys=False,
                         allow_unicode=True)  # fmt: skip
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        # Values that RocketMQ does not know are kept, but not every one can be written.
        raise AclError(f"{path} cannot be written: {type(error).__name__}") from None
    if len(text.encode()) > FILE_BYTES_MAX:
        raise AclError(f"{path} would be over {FILE_BYTES_MAX} bytes")
    path = path.resolve()  # a link stays a link
    files.replace(path, text.encode(), mode=_SECRET_MODE)


def _loaded(path: Path) -> dict[str, Any]:
    import yaml

    with path.open("rb") as file:
        text = file.read(FILE_BYTES_MAX + 1)
    if len(text) > FILE_BYTES_MAX:
        raise AclError(f"over {FILE_BYTES_MAX} bytes")
    _check_shape(text)
    try:
        data = yaml.load(text, _loader())
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise AclError(f"no YAML: {_where(error)}") from None
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise AclError(f"a mapping is expected, not a {type(data).__name__}")
    return data


def _check_shape(text: bytes) -> None:
    """Refuse what is small in the file and huge or deep once it is loaded."""
    import yaml

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
            raise AclError("YAML aliases (*name) are not taken: a few of them make gigabytes")
        depth += isinstance(token, starts) - isinstance(token, ends)
        if depth > _NESTING_MAX:
            raise AclError(f"lists and mappings are nested over {_NESTING_MAX} deep")


def _loader() -> type[yaml.SafeLoader]:
    """libyaml's safe loader, many times faster, where PyYAML was built with it."""
    import yaml

    found: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return found


def _tokens(text: bytes) -> Iterator[object]:
    import yaml

    try:
        yield from yaml.scan(text, Loader=_loader())
    except (yaml.YAMLError, UnicodeDecodeError, ValueError):
        return  # safe_load says it better


def _where(error: BaseException) -> str:
    """Where YAML went wrong; never the text there, which may be a secret."""
    mark = getattr(error, "problem_mark", None)
    place = f"line {mark.line + 1}, column {mark.column + 1}" if mark else type(error).__name__
    problem = getattr(error, "problem", None)
    words = problem if isinstance(problem, str) and "'" not in problem else ""
    return f"{place} {words}".strip()


def parse(path: Path, data: dict[str, Any], now_ms: int) -> AclFile:
    """What a file with this data says; AclError if RocketMQ or we could not take it."""
    white = [pattern for entry in _list(data, "globalWhiteRemoteAddresses")
             for pattern in patterns(scalar({"address": entry}, "address"))]  # fmt: skip
    accounts = []
    for number, entry in enumerate(_list(data, "accounts"), 1):
        try:
            accounts.append(read_account(entry))
        except AclError as error:
            raise AclError(f"account {number}: {error}") from None
    return AclFile(path, tuple(accounts), tuple(white), _version(data, now_ms), data)


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
