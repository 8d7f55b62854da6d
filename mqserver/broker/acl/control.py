"""The accounts of a running broker: loaded, watched, published, changed by administrators.

A file that cannot be read at start stops the start; one that turns bad later is said once and the
rules in force stay. Changes are written to the files first and published before the answer.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mqserver.broker.acl.accounts import Account
from mqserver.broker.acl.errors import AclError
from mqserver.broker.acl.files import AclFile, Places, Version, parse, read, write
from mqserver.config.load import SettingsError
from mqserver.config.settings import BrokerSettings
from mqserver.guard import ACCOUNT_CODES
from mqserver.plane import Tables
from mqserver.services import Services
from mqserver.watch import Stamp, Watch

log = logging.getLogger("mqserver.broker.acl")
WATCH_S = 5.0
"""The files are looked at so often, as RocketMQ does."""
TABLE = "acl"

Denials = Callable[[], tuple[int, tuple[str, str] | None]]
"""Takes what the plane refused since the last call: how many, and the newest's peer and reason."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """One reading of all files. accounts: by access key, the first of a key counts."""

    files: tuple[AclFile, ...] = ()
    accounts: dict[str, tuple[Account, Path]] = field(default_factory=dict)


def access_control(settings: BrokerSettings, tables: Tables) -> AccessControl:
    """The access control that a broker's settings ask for, loaded and published.

    Raises SettingsError for a missing home or a bad file, naming it.
    """
    made = AccessControl(
        _places(settings),
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
    """Read every access file and change nothing; SettingsError names a bad one."""
    try:
        for path in _places(settings).paths():
            read(path, 0)
    except AclError as error:
        raise SettingsError(str(error)) from error


def _places(settings: BrokerSettings) -> Places:
    if not settings.rocketmq_home:
        raise SettingsError(
            "aclEnable=true needs rocketmqHome (or ROCKETMQ_HOME in the environment): the "
            f"directory with {settings.acl_plain_file}"
        )
    return Places(Path(settings.rocketmq_home).expanduser(), settings.acl_plain_file)


class AccessControl:
    """Accounts and white lists of one broker.

    places: where the files are. tables: where the rules are published. white_skips_signature:
    `aclWhiteListSkipsSignature`. now_ms: wall clock.
    """

    def __init__(
        self,
        places: Places,
        tables: Tables,
        now_ms: Callable[[], int],
        *,
        white_skips_signature: bool = False,
        watch_s: float = WATCH_S,
    ) -> None:
        self.places = places
        self._tables = tables
        self._now_ms = now_ms
        self._white_skips_signature = white_skips_signature
        self._lock = threading.Lock()
        self._loaded = Loaded()
        self._stamps: dict[Path, Stamp] = {}
        self._denials: Denials = lambda: (0, None)
        self._watch = Watch("acl-watch", self.look, watch_s)

    # --- life

    def load(self) -> None:
        """Read and publish everything. Raises AclError, OSError; then nothing was published."""
        with self._lock:
            self.places.ensure()
            self._reload()
        log.info("access control: %d accounts", len(self._loaded.accounts))

    def start(self, denials: Denials, services: Services | None = None) -> None:
        """Watch the files, and tell of refusals. denials: what the plane refused."""
        self._denials = denials
        self._watch.start(services)

    def stop(self) -> None:
        """End the thread."""
        self._watch.stop()

    def look(self) -> None:
        """Reload if a file changed; log what was refused since the last look, as one line."""
        count, last = self._denials()
        if last is not None:
            log.warning("access control refused %d requests, the last of %s: %r", count, *last)
        try:
            with self._lock:
                stamps = self.places.stamps()
                if stamps == self._stamps:
                    return
                self._stamps = stamps  # also of a bad file: it is said once
                self._reload()
        except (AclError, OSError) as error:
            log.error("access files changed but cannot be taken, the old rules stay: %s", error)
        else:
            log.info("access files changed: %d accounts", len(self._loaded.accounts))

    def _reload(self) -> None:
        stamps = self.places.stamps()
        files = tuple(read(path, self._now_ms()) for path in self.places.paths())
        loaded = Loaded(tuple(file for file in files if file.data))
        for file in loaded.files:
            for account in file.accounts:
                if account.access_key in loaded.accounts:
                    log.warning("accessKey %r is defined twice, again in %s: the first counts",
                                account.access_key, file.path)  # fmt: skip
                else:
                    loaded.accounts[account.access_key] = account, file.path
        rows = {key: account.row() for key, (account, _) in loaded.accounts.items()}
        white = [list(pattern) for file in loaded.files for pattern in file.white]
        if rows and not any(account.admin for account, _ in loaded.accounts.values()):
            log.warning("no account is an admin: every administration request is refused until "
                        "an access file has an account with admin: true")  # fmt: skip
        rules = rows, white, self._white_skips_signature, ACCOUNT_CODES
        self._tables.publish(TABLE, {"": rules})
        self._loaded, self._stamps = loaded, stamps

    # --- what is in force

    def files(self) -> tuple[AclFile, ...]:
        """The files that say something."""
        return self._loaded.files

    def version(self) -> Version:
        """The main file's version."""
        versions = {file.path: file.version for file in self._loaded.files}
        return versions.get(self.places.plain, Version())

    # --- changes

    def put_account(self, changes: dict[str, Any]) -> None:
        """Create an account, in the main file, or change one where it is.

        changes: RocketMQ's keys, among them accessKey. Raises AclError and writes nothing if the
        account would be bad, OSError if it cannot be written.
        """
        with self._lock:
            _, path = self._loaded.accounts.get(changes["accessKey"], (None, self.places.plain))
            data = dict(read(path, self._now_ms()).data) if path.exists() else {}
            accounts = list(data.get("accounts") or [])
            before = _take(accounts, changes["accessKey"])
            accounts.append({**(before or {}), **changes})
            self._write(path, {**data, "accounts": accounts})

    def delete_account(self, access_key: str) -> bool:
        """Delete an account; False if there is none. Raises AclError, OSError."""
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

    def set_white(self, addresses: list[str], path: Path) -> bool:
        """Replace the global white list of a file; False if it is no access file of this broker.

        Raises AclError, OSError.
        """
        with self._lock:
            if not self.places.owns(path):
                return False
            path = path.resolve()
            known = next(own for own in self.places.paths() if own.resolve() == path)
            data = read(known, self._now_ms()).data
            self._write(known, {**data, "globalWhiteRemoteAddresses": addresses})
            return True

    def _write(self, path: Path, data: dict[str, Any]) -> None:
        """Check, write with the next version, read again, publish."""
        checked = parse(path, data, self._now_ms())
        following = Version(checked.version.counter + 1, self._now_ms())
        write(path, {**data, "dataVersion": [following.plain()]})
        self._reload()


def _take(accounts: list[Any], access_key: str) -> dict[str, Any] | None:
    """Take an account out of a file's list."""
    for index, entry in enumerate(accounts):
        if isinstance(entry, dict) and str(entry.get("accessKey")) == access_key:
            del accounts[index]
            return entry
    return None
