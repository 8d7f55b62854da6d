"""The file that saves the online changes of a server; it is read after the operator's own file."""

from __future__ import annotations

import os

from mqcommon.files import StateFile
from mqcommon.java_properties import Entry, parse, render
from mqserver.config.loaded import AnyPath, Loaded, SettingsError
from mqstore import StoreError


class Overrides:
    """The saved changes of one server. path: the file, which is in a folder `config`."""

    def __init__(self, path: AnyPath) -> None:
        self.path = os.fspath(path)
        home = os.path.dirname(os.path.dirname(os.path.abspath(self.path)))
        self._file = StateFile(self.path, os.path.join(home, "mqstack"))

    def entries(self) -> list[Entry]:
        """The saved changes. Raises SettingsError if the file and its backup are damaged."""
        try:
            return self._file.load(_read) or []
        except StoreError as error:
            raise SettingsError(str(error)) from error
        except OSError as error:
            raise SettingsError(f"cannot read {self.path}: {error}") from error

    def save(self, changes: dict[str, str]) -> None:
        """Merge changes into the file and sync it to the disk. Raises OSError, SettingsError."""
        saved = {entry.key: entry.value for entry in self.entries()}
        self._file.save(render({**saved, **changes}).encode())


def apply_overrides(loaded: Loaded, path: AnyPath) -> None:
    """Apply the saved changes. A change that cannot be used causes a warning; the others apply.

    The bad change stays in the file until the next update of its key replaces it.
    """
    path = os.fspath(path)
    if not os.path.lexists(path) and not os.path.lexists(path + ".bak"):
        return
    for entry in Overrides(path).entries():
        try:
            loaded.apply(entry.key, entry.value, f"{path}:{entry.line}")
        except SettingsError as error:
            loaded.warnings.append(f"{error}; ignored")


def _read(text: bytes) -> list[Entry]:
    try:
        return parse(text.decode())
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start}") from error
