"""The setting `storeFileMode`: permissions of the files that a server creates."""

from __future__ import annotations

from mqcommon import files
from mqserver.config.loaded import Loaded, SettingsError
from mqserver.runtime.process_state import remember

KEY = "storeFileMode"
_OWNER = 0o600


def use(loaded: Loaded) -> None:
    """Apply `storeFileMode` to this process; without it the default of `mqcommon.files` stays.

    Raises SettingsError.
    """
    if loaded.is_set(KEY):
        mode = _read(loaded)
        remember()
        files.set_mode(mode)


def _read(loaded: Loaded) -> int:
    text = str(loaded.values[KEY])
    digits = text if len(text) in (3, 4) and text.isascii() and text.isdecimal() else ""
    try:
        mode = int(digits, 8)
    except ValueError:
        mode = 0
    if mode & ~0o666 or mode & _OWNER != _OWNER:
        raise SettingsError(
            f"{loaded.origins[KEY]}: {KEY}={text}: must be an octal mode from 0600 to 0666 with "
            "read and write for the owner, like 0640"
        )
    return mode
