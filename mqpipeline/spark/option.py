"""Options of the Spark formats; each is declared once, with the function that parses its text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal

__all__ = [
    "Option",
    "Use",
    "boolean",
    "byte_count",
    "count",
    "queue_numbers",
    "read_options",
    "seconds",
]

Use = Literal["batch", "stream", "write"]
"""The use of an option: a batch read, a streaming read, or a batch or streaming write."""

_OF_SPARK = frozenset({"path", "paths", "checkpointlocation", "serialization.format"})
"""Options that Spark adds itself, for load(path) and save(path), for streams and for tables."""
_USE_WORDS = {"batch": "batch reads", "stream": "streaming reads", "write": "writes"}
_SIZE_UNITS = {"k": 10, "m": 20, "g": 30}


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a format.

    read: parses the option's text; its ValueError says which values are allowed. meaning: text for
    the documentation. default: the value without the option. shown: the default as text for the
    documentation. aliases: other names. uses: the only uses of the option, empty for all.
    """

    name: str
    read: Callable[[str], Any]
    meaning: str
    default: Any = None
    shown: str = ""
    aliases: tuple[str, ...] = ()
    uses: tuple[Use, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The name and the aliases."""
        return (self.name, *self.aliases)

    def value(self, given: Mapping[str, str]) -> Any:
        """The value from a map of options; an empty text counts as not given.

        Raises ValueError if the text is wrong, or if several names are given.
        """
        found = [name for name in self.names if given.get(name)]
        if len(found) > 1:
            raise ValueError(f"give option {found[0]} or {found[1]}, not both: they are the same")
        if not found:
            return self.default
        try:
            return self.read(given[found[0]])
        except ValueError as error:
            raise ValueError(f"option {found[0]} = {given[found[0]]!r}: {error}") from None


def read_options(
    given: Mapping[str, str], declared: Iterable[Option], use: Use | None = None
) -> dict[str, Any]:
    """The value of every declared option by name, including defaults.

    given: Spark's map, keys in any case. use: the use of the options; None skips this check.
    Raises ValueError for an option that is unknown, wrong, or meant for another use.
    """
    declared = list(declared)
    by_name = {name.lower(): option for option in declared for name in option.names}
    _refuse_unknown(given, [name for option in declared for name in option.names])
    for name in given:
        option = by_name.get(name.lower())
        if use is not None and option is not None and option.uses and use not in option.uses:
            uses = " and ".join(_USE_WORDS[other] for other in option.uses)
            raise ValueError(f"option {option.name} is for {uses}, not for {_USE_WORDS[use]}")
    return {option.name: option.value(given) for option in declared}


def _refuse_unknown(given: Iterable[str], known: Iterable[str]) -> None:
    """Raise ValueError for an unknown option, with the most similar name; ignores case, as
    Spark."""
    names = {name.lower(): name for name in known}
    for name in given:
        if name.lower() in names or name.lower() in _OF_SPARK:
            continue
        near = get_close_matches(name.lower(), names, 1)
        hint = f"did you mean {names[near[0]]}? " if near else ""
        raise ValueError(
            f"no option {name!r}; {hint}the options are: {', '.join(sorted(names.values()))}"
        )


def queue_numbers(text: str) -> frozenset[int]:
    """Parse queue ids such as "0,2"."""
    try:
        return frozenset(int(word) for word in text.split(","))
    except ValueError:
        raise ValueError("give queue ids as 0,2") from None


def boolean(text: str) -> bool:
    """Parse "true" or "false", in any case."""
    if text.lower() not in ("true", "false"):
        raise ValueError("give true or false")
    return text.lower() == "true"


def count(text: str) -> int:
    """Parse a whole number above 0."""
    if not text.isdigit() or int(text) < 1:
        raise ValueError("give a number above 0")
    return int(text)


def byte_count(text: str) -> int:
    """Parse a number of bytes above 0, such as 67108864 or 64m."""
    words = text.strip().lower().removesuffix("b")
    shift = _SIZE_UNITS.get(words[-1:], 0)
    number = words[:-1] if shift else words
    if not number.isdigit() or int(number) < 1:
        raise ValueError("give a number of bytes above 0, such as 67108864 or 64m")
    return int(number) << shift


def seconds(text: str) -> float:
    """Parse a number of seconds above 0."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise ValueError("give seconds above 0")
    return number
