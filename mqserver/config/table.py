"""What a setting is: its key, default, unit and range, what it does, and who knows it.

A setting is said once: as a field of a `Group`, with `setting` or `ours`. The tables, the frozen
objects of the servers, `docs/settings.md` and the comparison with RocketMQ are made from that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar, cast

Value = bool | int | float | str


class Secret(str):
    """A value that is not shown where what holds it is shown."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'******'"


INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

ROCKETMQ = "RocketMQ 4.9.7"
LATER = "RocketMQ 4.9.8"
ROCKETMQ_5 = "RocketMQ 5"
UNLISTED = "RocketMQ 4.9, outside its configuration classes"
OURS = "mqstack"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of a settings table. The kind of value is that of the default.

    unit: what a number counts ("ms", "bytes", "%"). floor, ceiling: allowed range, inclusive.
    choices: the words allowed. inert: why a key known to Java has no effect here. online: may be
    changed while running. important: shown by `-m`. aliases: older spellings of the key.
    secret: its value is never shown. known_to: whose key it is.
    """

    key: str
    default: Value
    about: str = ""
    unit: str = ""
    floor: int = 0
    ceiling: int = INT_MAX
    choices: tuple[str, ...] = ()
    inert: str = ""
    online: bool = False
    important: bool = False
    aliases: tuple[str, ...] = ()
    secret: bool = False
    known_to: str = ROCKETMQ

    def read(self, text: str) -> Value:
        """Turn text into a value of this setting; ValueError says what is allowed."""
        if isinstance(self.default, bool):
            return self._read_bool(text)
        if isinstance(self.default, int):
            return self._read_int(text)
        if isinstance(self.default, float):
            return float(text)
        if self.choices and text not in self.choices:
            raise ValueError(f"one of {', '.join(self.choices)}")
        return Secret(text) if self.secret and text else text

    def _read_bool(self, text: str) -> bool:
        if text.lower() not in ("true", "false"):
            raise ValueError("true or false")
        return text.lower() == "true"

    def _read_int(self, text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise ValueError(self.allowed()) from None
        if not self.floor <= value <= self.ceiling:
            raise ValueError(self.allowed())
        return value

    def allowed(self) -> str:
        """The allowed values in words."""
        unit = f" {self.unit}" if self.unit else ""
        return f"a whole number from {self.floor} to {self.ceiling}{unit}"


def setting(key: str, default: T, about: str, **options: Any) -> T:
    """Declare a field of a `Group`. options: see `Setting`."""
    return cast(T, Setting(key, cast(Value, default), about, **options))


def ours(key: str, default: T, about: str, **options: Any) -> T:
    """Declare a field whose key is of mqstack alone: no RocketMQ knows it."""
    return setting(key, default, about, known_to=OURS, **options)


def inert(key: str, default: Value, why: str, **options: Any) -> Setting:
    """A key an existing file may hold, which changes nothing here; any number is taken."""
    return Setting(key, default, inert=why, floor=-LONG_MAX, ceiling=LONG_MAX, **options)


class Group:
    """Frozen values of settings, each declared once as a field: `port: int = setting(...)`.

    The class holds the rows, an object the values. Fields without a row hold other groups.
    """

    def __init__(self, **values: object) -> None:
        lost = self.rows().keys() - values.keys()
        assert not lost, f"no values for {sorted(lost)}"
        self.__dict__.update(values)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name} of {type(self).__name__} cannot change")

    @classmethod
    @cache
    def rows(cls) -> Mapping[str, Setting]:
        """The rows by field, those of a base class after the class's own."""
        found: dict[str, Setting] = {}
        for kind in cls.__mro__:
            for name, value in vars(kind).items():
                if isinstance(value, Setting):
                    found.setdefault(name, value)
        return found


def shown_of(setting: Setting, value: Value) -> str:
    """A setting's value as it may be shown: a secret's only says that there is one."""
    return "******" if setting.secret and value else shown(value)


def shown(value: Value) -> str:
    """A value as RocketMQ's properties text shows it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


class Table(Mapping[str, Setting]):
    """The settings of one server, by key, in their declared order."""

    def __init__(self, *rows: Setting) -> None:
        self._rows = {row.key: row for row in rows}
        self._aliases = {alias: row.key for row in self._rows.values() for alias in row.aliases}

    def __getitem__(self, key: str) -> Setting:
        return self._rows[self._aliases.get(key, key)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def nearest(self, key: str) -> str | None:
        """The known key that looks most like an unknown one."""
        lower = {known.lower(): known for known in self._rows}
        import difflib  # only for mistakes

        close = difflib.get_close_matches(key.lower(), lower, n=1, cutoff=0.75)
        return lower[close[0]] if close else None
