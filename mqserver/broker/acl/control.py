"""The accounts of a running broker: load, watch, publish and change them.

A bad file stops the start of the broker. If a file turns bad later, the broker logs that once and
keeps the rules in force. An administrator's change is written to the file first, and published
before the broker answers.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mqcommon import files
from mqserver.broker.acl.accounts import Account
from mqserver.broker.acl.addresses import matches
from mqserver.broker.acl.errors import AclError
from mqserver.broker.acl.files import AclFile, AclPaths, Version, parse, read, write
from mqserver.config.loaded import SettingsError
from mqserver.config.settings import BrokerSettings
from mqserver.runtime.data_plane import Tables
from mqserver.runtime.guard import ACCOUNT_CODES, address_of
from mqserver.runtime.services import Services
from mqserver.runtime.watch import Stamp, Watch

log = logging.getLogger("mqserver.broker.acl")
WATCH_S = 5.0
"""Interval between checks of the files, as in RocketMQ."""
TABLE = "acl"

Denials = Callable[[], tuple[int, tuple[str, str] | None]]
"""Returns the number of requests that the data plane refused since the last call, and the peer and
reason of the newest one."""


@dataclass(frozen=True, slots=True)
class AccessFiles:
    """The content of all files. accounts: by access key."""

    files: tuple[AclFile, ...] = ()
    accounts: dict[str, tuple[Account, Path]] = field(default_factory=dict)


def access_control(settings: BrokerSettings, tables: Tables) -> AccessControl:
    """Make, load and publish the access control of a broker.

    Raises SettingsError that names a missing home directory or a bad file.
    """
    made = AccessControl(
        _acl_paths(settings),
        tables,
        lambda: time.time_ns() // 1_000_000,
        white_skips_signature=settings.acl_white_list_skips_signature,
    )
    try:
        made.load()
    except AclError as error:
        raise SettingsError(str(error)) from error
    return made


def check_files(settings: BrokerSettings) -> None:
    """Read every access file without publishing it. Raises SettingsError that names a bad file."""
    try:
        _merged([read(path, 0) for path in _acl_paths(settings).paths()])
    except AclError as error:
        raise SettingsError(str(error)) from error


def _merged(files: Iterable[AclFile]) -> AccessFiles:
    """The accounts of all files. Raises AclError for a key that two of them have."""
    merged = AccessFiles(tuple(file for file in files if file.data))
    for file in merged.files:
        for index, account in enumerate(file.accounts):
            key = account.access_key
            if key in merged.accounts:
                line = file.lines.get(("accounts", index), 0)
                first = merged.accounts[key][1]
                raise AclError(f"{file.path}: account {index + 1}, line {line}: {key!r} has an "
                               f"account in {first} already; remove one of the two")  # fmt: skip
            merged.accounts[key] = account, file.path
    return merged


def _acl_paths(settings: BrokerSettings) -> AclPaths:
    if not settings.rocketmq_home:
        raise SettingsError(
            "aclEnable=true needs rocketmqHome (or ROCKETMQ_HOME in the environment): the "
            f"directory with {settings.acl_plain_file}"
        )
    return AclPaths(Path(settings.rocketmq_home).expanduser(), settings.acl_plain_file)


class AccessControl:
    """The accounts and white lists of one broker.

    paths: the access files. tables: the tables that publish the rules. white_skips_signature:
    `aclWhiteListSkipsSignature`. now_ms: wall clock.
    """

    def __init__(
        self,
        paths: AclPaths,
        tables: Tables,
        now_ms: Callable[[], int],
        *,
        white_skips_signature: bool = False,
        watch_s: float = WATCH_S,
    ) -> None:
        self.paths = paths
        self._tables = tables
        self._now_ms = now_ms
        self._white_skips_signature = white_skips_signature
        self._lock = threading.Lock()
        self._loaded = AccessFiles()
        self._stamps: dict[Path, Stamp] = {}
        self._gone: set[Path] = set()
        self._denials: Denials = lambda: (0, None)
        self._watch = Watch("acl-watch", self.look, watch_s)

    # --- life

    def load(self) -> None:
        """Read and publish all files. Raises AclError, OSError before it publishes anything."""
        with self._lock:
            self.paths.ensure()
            self._reload()
        log.info("access control is on, with %d accounts", len(self._loaded.accounts))

    def start(self, denials: Denials, services: Services | None = None) -> None:
        """Start to watch the files and to log refusals. denials: returns the refusals."""
        self._denials = denials
        self._watch.start(services)

    def stop(self) -> None:
        """End the thread."""
        self._watch.stop()

    def look(self) -> None:
        """Reload the files if one changed; log the refusals since the last call as one line."""
        count, last = self._denials()
        if last is not None:
            log.warning("access control refused %d requests, the last from %s: %r", count, *last)
        try:
            with self._lock:
                stamps = self.paths.stamps()
                gone = self._stamps.keys() - stamps.keys()
                if stamps == self._stamps or self._wait_for(gone):
                    return
                self._stamps = stamps  # set for a bad file too, so that it is logged only once
                self._reload()
        except (AclError, OSError) as error:
            log.error("the access files changed but have an error, so the old rules stay in "
                      "force: %s", error)  # fmt: skip
        else:
            log.info("the access files changed and have %d accounts", len(self._loaded.accounts))

    def _wait_for(self, gone: set[Path]) -> bool:
        """Whether to look once more before rules go with their files: an editor that replaces a
        file may have removed it a moment ago."""
        is_news = gone != self._gone
        self._gone = gone
        if is_news and gone:
            names = ", ".join(map(str, sorted(gone)))
            log.warning("%s is gone; its rules stay in force until the next look", names)
        return is_news and bool(gone)

    def _reload(self) -> None:
        stamps = self.paths.stamps()
        files = tuple(read(path, self._now_ms()) for path in self.paths.paths())
        self._check_emptied(files)
        loaded = _merged(files)
        rows = {key: account.row() for key, (account, _) in loaded.accounts.items()}
        white = [list(pattern) for file in loaded.files for pattern in file.white]
        if rows and not any(account.admin for account, _ in loaded.accounts.values()):
            log.warning("no account is an admin, so the broker refuses every administration "
                        "request; set admin: true for an account in an access file")  # fmt: skip
        rules = rows, white, self._white_skips_signature, ACCOUNT_CODES
        self._tables.publish(TABLE, {"": rules})
        self._loaded, self._stamps = loaded, stamps

    def _check_emptied(self, files: Iterable[AclFile]) -> None:
        """Raises AclError if a file that had rules is empty, as while an editor saves it."""
        had_rules = {file.path for file in self._loaded.files}
        for file in files:
            if not file.data and file.path in had_rules:
                raise AclError(f"{file.path} is empty; to remove its rules, write \"accounts: []\" "
                               "or delete the file")  # fmt: skip

    # --- rules in force

    def files(self) -> tuple[AclFile, ...]:
        """The access files that are not empty."""
        return self._loaded.files

    def version(self) -> Version:
        """The version of the main file."""
        versions = {file.path: file.version for file in self._loaded.files}
        return versions.get(self.paths.plain, Version())

    def may_read(self, fields: Mapping[str, str], remote: str, topic: str) -> bool:
        """Whether a request may read messages of a topic. The data plane has checked its signature,
        but cannot know the topic of a message that the request names by an offset."""
        address = address_of(remote)
        known = self._loaded.accounts.get(fields.get("AccessKey", ""))
        white = [pattern for file in self._loaded.files for pattern in file.white]
        if known is None:  # only an address of a white list comes without an account
            return self._white_skips_signature and any(matches(one, address) for one in white)
        account, _ = known
        if any(matches(one, address) for one in (*white, *account.white)):
            return True
        return account.may_read(topic)

    # --- changes

    def put_account(self, changes: dict[str, Any]) -> None:
        """Create an account in the main file, or change an account in the file that has it.

        changes: values by RocketMQ's keys, among them accessKey. Raises AclError if the account
        would be bad, and OSError if the file cannot be written; the file stays as it was.
        """
        with self._lock:
            _, path = self._loaded.accounts.get(changes["accessKey"], (None, self.paths.plain))
            data = dict(read(path, self._now_ms()).data) if path.exists() else {}
            accounts = list(data.get("accounts") or [])
            before = _take(accounts, changes["accessKey"])
            accounts.append({**(before or {}), **changes})
            self._write(path, {**data, "accounts": accounts})

    def delete_account(self, access_key: str) -> bool:
        """Delete an account; False if it does not exist. Raises AclError, OSError."""
        with self._lock:
            found = self._loaded.accounts.get(access_key)
            if found is None:
                return False
            data = dict(read(found[1], self._now_ms()).data)
            accounts = list(data.get("accounts") or [])
            if _take(accounts, access_key) is None:
                return False
            self._write(found[1], {**data, "accounts": accounts})
            return True

    def set_white(self, addresses: list[str], file: str = "") -> bool:
        """Replace the global white list of a file. file: its path; empty for the main file.

        Returns False if the path is not an access file of this broker. Raises AclError, OSError.
        """
        with self._lock:
            path = Path(file) if file else self.paths.plain
            if not self.paths.owns(path):
                return False
            path = path.resolve()
            known = next(own for own in self.paths.paths() if own.resolve() == path)
            data = read(known, self._now_ms()).data
            self._write(known, {**data, "globalWhiteRemoteAddresses": addresses})
            return True

    def content(self) -> dict[str, dict[str, Any]]:
        """The content of every access file that is in force; the main file has the key "", each
        other file its path below `conf/acl`."""
        return {
            "" if file.path == self.paths.plain else str(file.path.relative_to(self.paths.folder)):
            file.data
            for file in self._loaded.files
        }  # fmt: skip

    def copy(self, content: Mapping[str, dict[str, Any]]) -> bool:
        """Replace all access files by those of a master, its `content`; False if they are the same.

        Raises AclError for content that this broker could not use, before it changes a file, and
        OSError.
        """
        with self._lock:
            if content == self.content():
                return False
            wanted = {self.paths.below(name): data for name, data in content.items()}
            wanted.setdefault(self.paths.plain, {"accounts": []})
            _merged(parse(path, data, self._now_ms()) for path, data in wanted.items())
            for path, data in wanted.items():
                files.make_folders(path.parent)
                write(path, data)
            for path in self.paths.paths():
                if path not in wanted:
                    path.unlink()
            self._reload()
        log.warning("the access files were replaced by the master's: %s", ", ".join(
            str(path) for path in wanted))  # fmt: skip
        return True

    def _write(self, path: Path, data: dict[str, Any]) -> None:
        """Check the data, write it with the next version, read all files again and publish."""
        checked = parse(path, data, self._now_ms())
        following = Version(checked.version.counter + 1, self._now_ms())
        write(path, {**data, "dataVersion": [following.plain()]})
        self._reload()


def _take(accounts: list[Any], access_key: str) -> dict[str, Any] | None:
    """Remove an account from a file's list and return it; None if the list does not have it."""
    for index, entry in enumerate(accounts):
        if isinstance(entry, dict) and str(entry.get("accessKey")) == access_key:
            del accounts[index]
            return entry
    return None
