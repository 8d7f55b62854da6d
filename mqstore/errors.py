"""Errors of the store and of the offline tools.

    Exception
      StoreError           an operation failed; says which, with which value, and what to do
        StoreLocked        another process has the store open
        UnknownLayout      not a store, or other file sizes, or an unknown version
        StoreDamaged       damage other than a torn tail, and `damagePolicy` is "refuse"
        StorePoisoned      a write or fsync failed earlier; reads only until reopened
    ValueError
      SettingError         a setting is unknown, of the wrong type or out of its range
      DecodeError          bytes that should be a stored message are not

A failed file operation raises the matching OSError (FileNotFoundError, PermissionError, ...) with
errno and file name.
"""

from mqcommon._core import (
    SettingError,
    StoreDamaged,
    StoreError,
    StoreLocked,
    StorePoisoned,
    UnknownLayout,
)
from mqcommon.message import DecodeError

__all__ = [
    "DecodeError",
    "SettingError",
    "StoreDamaged",
    "StoreError",
    "StoreLocked",
    "StorePoisoned",
    "UnknownLayout",
]
