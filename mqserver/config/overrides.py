"""The file in which a server keeps what was changed online: read after the operator's own file."""

from __future__ import annotations

import os

from mqserver.config.load import AnyPath, Loaded, SettingsError
from mqstore import StoreError
from mqstore.files import StateFile
from mqstore.java_properties import Entry, parse, render


class Overrides:
    """The saved changes of one server. path: the file, in a folder `config`."""

    def __init__(self, path: AnyPath) -> None:
        self.path = os.fspath(path)
        home = os.path.dirname(os.path.dirname(os.path.abspath(self.path)))
        self._file = StateFile(self.path, os.path.join(home, "mqstack"))

    def entries(self) -> list[Entry]:
        """What is saved. Raises SettingsError where the file and its previous copy are damaged."""
        try:
            return self._file.load(_read) or []
        except StoreError as error:
            raise SettingsError(str(error)) from error
        except OSError as error:
            raise SettingsError(f"cannot read {self.path}: {error}") from error

    def save(self, changes: dict[str, str]) -> None:
        """Merge changes into the file, durably. Raises OSError, SettingsError."""
        saved = {entry.key: entry.value for entry in self.entries()}
        self._file.save(render({**saved, **changes}).encode())


def apply_overrides(loaded: Loaded, path: AnyPath) -> None:
    """Take the saved changes; one that cannot be used is named in a warning, the others count.

    It stays in the file: the next update of its key replaces it.
    """
    path = os.fspath(path)
    if not os.path.lexists(path) and not os.path.lexists(path + ".bak"):
        return  # the usual start needs no compiled core yet
    for entry in Overrides(path).entries():
        try:
            loaded.apply(entry.key, entry.value, f"{path}:{entry.line}")
        except SettingsError as error:
            loaded.warnings.append(f"{error}; ignored")


def _read(text: bytes) -> list[Entry]:
    try:
        return parse(text.decode())
    except UnicodeDecodeError as error:
        raise ValueError(f"no UTF-8 text at byte {error.start}") from error
