"""Declares options: each option is one field with its type, default, unit, range and meaning.

Checks, errors, the signatures and docstrings of constructors, and `docs/client/options.md` come
from the fields. A group of options is a frozen dataclass:

    @declared
    class Linger(Declared):
        wait: Annotated[float, Option("time that a send waits", "s", 0.001, 1)] = 0.005
"""

from __future__ import annotations

import inspect
import re
import reprlib
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import wraps
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Concatenate,
    Literal,
    ParamSpec,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from mqclient.settings.foreign_names import hint_of

__all__ = [
    "ANSWER_MAX_S",
    "DAY_S",
    "INTERVAL_MAX_S",
    "Declared",
    "Option",
    "Row",
    "by_value",
    "changed",
    "declared",
    "explained",
    "made_of",
    "narrowed",
    "rows",
    "takes",
]

P = ParamSpec("P")
C = TypeVar("C")
S = TypeVar("S")
T = TypeVar("T")
D = TypeVar("D", bound="Declared")

ANSWER_MAX_S = 300
"""Longest time that a call may wait for a server, in seconds. More is a mistake: milliseconds."""
INTERVAL_MAX_S = 3600
DAY_S = 86_400
_COLUMNS = 96
"""Of a docstring, so that `help` of it has 100."""
_SHOWN = reprlib.Repr()
_SHOWN.maxstring = _SHOWN.maxother = 60


@dataclass(frozen=True)
class Option:
    """The meaning, unit, range and check of an option; its field has the type and the default.

    about: meaning. unit: "s" for seconds, "bytes", "messages" and others. low, high: the allowed
    range, inclusive. read: converts and checks a value, for types that need more than their name;
    gets the option's name and the value. reads_none: `read` gets None too. kind: the type in words,
    for such types. secret: errors and `repr` never show the value.
    """

    about: str
    unit: str = ""
    low: float = float("-inf")
    high: float = float("inf")
    read: Callable[[str, Any], Any] | None = None
    reads_none: bool = False
    kind: str = ""
    secret: bool = False


def by_value(check: Callable[[Any], Any]) -> Callable[[str, Any], Any]:
    """An `Option.read` of a check that names the option itself."""
    return lambda _name, value: check(value)


@dataclass(frozen=True)
class Row:
    """One declared option: its name, its type without None, its default and its `Option`.

    group: the group of options that its values are, if its type names one.
    """

    name: str
    hint: Any
    default: Any
    option: Option
    takes_none: bool
    group: type[Declared] | None

    @property
    def required(self) -> bool:
        """Whether the option has no default."""
        return self.default is MISSING

    @property
    def kind(self) -> str:
        """The type in words."""
        if self.option.kind:
            return self.option.kind
        if get_origin(self.hint) is Literal:
            return " | ".join(repr(choice) for choice in get_args(self.hint))
        if get_origin(self.hint) is not None or self.hint is Any:
            return "Callable"
        return str(self.hint.__name__)

    @property
    def annotation(self) -> str:
        """The type in words, with None if the option takes it."""
        return f"{self.kind} | None" if self.takes_none else self.kind

    @property
    def unit(self) -> str:
        """The unit in words; empty without one."""
        return {"s": "seconds"}.get(self.option.unit, self.option.unit)

    @property
    def range(self) -> str:
        """The allowed range in words; empty without one."""
        low, high = self.option.low, self.option.high
        return "" if low == float("-inf") else f"{low:,.12g} to {high:,.12g}".replace(",", "_")

    def check(self, value: Any) -> Any:
        """The value as the option keeps it. Raises TypeError or ValueError naming the option."""
        if value is None and self.takes_none and not self.option.reads_none:
            return None
        if self.option.read is not None:
            return self.option.read(self.name, value)
        if self.hint is float:
            return float(self._number(value, (int, float)))
        if self.hint is int:
            return self._number(value, int)
        if get_origin(self.hint) is Literal:
            if not any(value is choice or value == choice for choice in get_args(self.hint)):
                raise ValueError(self._refusal(value))
        elif get_origin(self.hint) is not None:
            if not callable(value):
                raise TypeError(self._refusal(value))
        elif not isinstance(value, self.hint):
            raise TypeError(self._refusal(value))
        return value

    def _number(self, value: Any, kinds: Any) -> Any:
        option = self.option
        if isinstance(value, bool) or not isinstance(value, kinds):
            raise TypeError(self._refusal(value))
        if not option.low <= value <= option.high:
            hint = ""
            if option.unit == "s" and option.low <= value / 1000 <= option.high:
                hint = "; give seconds, not milliseconds"
            allowed = f"{self.range} {self.unit}".rstrip()
            raise ValueError(f"{self.name} must be {allowed}, not {value!r}{hint}")
        return value

    def _refusal(self, value: Any) -> str:
        expected = self.kind.replace(" | ", " or ").replace("Callable", "a function")
        if self.hint in (float, int):
            expected = "a number" if self.hint is float else "a whole number"
            expected += f" of {self.unit}" if self.unit else ""
        elif self.group:
            expected = f"a {expected}"
        if self.takes_none:
            expected += " or None"
        given = type(value).__name__ if self.option.secret else _SHOWN.repr(value)
        return f"{self.name} must be {expected}, not {given}"


class Declared:
    """Base of every group of options. `@declared` makes a subclass a frozen dataclass."""

    last: ClassVar[tuple[str, ...]] = ()
    """Names of options that come after the others in signatures and lists."""
    refused: ClassVar[dict[str, str]] = {}
    """Names of other groups that this one does not take, with the reason."""

    def __post_init__(self) -> None:
        for row in rows(type(self)):
            object.__setattr__(self, row.name, row.check(getattr(self, row.name)))
        self._check()

    def _check(self) -> None:
        """Check options together; each of them is checked already."""

    def __repr__(self) -> str:
        """The options that differ from their defaults; a secret appears as asterisks."""
        shown = (
            f"{row.name}={'***' if row.option.secret else repr(getattr(self, row.name))}"
            for row in rows(type(self))
            if row.required or getattr(self, row.name) != row.default
        )
        return f"{type(self).__name__}({', '.join(shown)})"


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def declared(kind: type[T]) -> type[T]:
    """Make a subclass of Declared a frozen dataclass that names the nearest known option."""
    made: Any = dataclass(frozen=True, repr=False)(kind)
    init = made.__init__

    @wraps(init)
    def __init__(self: Any, /, *arguments: Any, **options: Any) -> None:
        _check_names(type(self), len(arguments), options)
        init(self, *arguments, **options)

    made.__init__ = __init__
    __init__.__signature__ = _signature(made)  # type: ignore[attr-defined]
    if made.__doc__:
        made.__doc__ = f"{inspect.cleandoc(made.__doc__)}\n\n{_listed(rows(made))}"
    checked: type[T] = made
    return checked


def _check_names(kind: type[Declared], positional: int, options: dict[str, Any]) -> None:
    known = rows(kind)
    names = {row.name for row in known}
    for name in options:
        if name not in names:
            if name in kind.refused:
                raise ValueError(kind.refused[name])
            raise TypeError(f"unknown argument {name!r}{hint_of(name, _written(known))}")
    for row in known[positional:]:
        if row.required and row.name not in options:
            raise TypeError(f"missing argument {row.name!r}: {row.option.about}")


def _written(known: tuple[Row, ...]) -> dict[str, str]:
    """How options are written: "pull.batch" as pull=Pull(batch=...), and "pull" as itself."""
    grouped = {
        f"{row.name}.{part.name}": f"{row.name}={row.group.__name__}({part.name}=...)"
        for row in known
        if row.group
        for part in rows(row.group)
    }
    return grouped | {row.name: row.name for row in known}


def rows(kind: Any) -> tuple[Row, ...]:
    """The options of a group, a subclass of Declared, in the order of its constructor."""
    if kind in _rows:
        return _rows[kind]
    hints = get_type_hints(kind, include_extras=True)
    items: tuple[Field[Any], ...] = fields(kind)
    items = tuple(item for item in items if item.init and item.name not in kind.refused)
    common = _last(kind)
    ordered = sorted(items, key=lambda item: (bool(item.kw_only), item.name in common))
    made = _rows[kind] = tuple(_row(item, hints[item.name]) for item in ordered)
    return made


def _last(kind: type[Declared]) -> list[str]:
    refused = kind.refused
    return [name for name in kind.last if name not in refused]


_rows: dict[Any, tuple[Row, ...]] = {}


def _row(item: Field[Any], hint: Any) -> Row:
    assert get_origin(hint) is Annotated, f"{item.name} has no Option"
    inner, option = get_args(hint)
    kinds = get_args(inner) if get_origin(inner) in (Union, UnionType) else (inner,)
    others = [kind for kind in kinds if kind is not NoneType]
    only = others[0] if len(others) == 1 else Any
    groups = (kind for kind in others if isinstance(kind, type) and issubclass(kind, Declared))
    return Row(item.name, only, item.default, option, NoneType in kinds, next(groups, None))


def narrowed(options: Declared, kind: type[D]) -> D:
    """The options of one kind out of a group that has more of them."""
    return kind(**{row.name: getattr(options, row.name) for row in rows(kind)})


def changed(options: D, **values: object) -> D:
    """A copy with other values, which are checked."""
    kept = {row.name: getattr(options, row.name) for row in rows(type(options))}
    return type(options)(**{**kept, **values})


def takes(
    kind: Callable[P, S],
) -> Callable[[Callable[[C, S], None]], Callable[Concatenate[C, P], None]]:
    """Decorate an `__init__(self, options)`: its arguments are the options of a group.

    Type checkers, completion and `help()` see every option. `__wrapped__` takes the group itself.
    """

    def decorate(init: Callable[[C, S], None]) -> Callable[Concatenate[C, P], None]:
        @wraps(init)
        def __init__(self: C, /, *arguments: P.args, **options: P.kwargs) -> None:
            init(self, kind(*arguments, **options))

        __init__.__signature__ = _signature(kind)  # type: ignore[attr-defined]
        __init__.__kind__ = kind  # type: ignore[attr-defined]
        return __init__

    return decorate


def made_of(client: type[C], options: object) -> C:
    """A client made of a group of options, which is checked already."""
    made = client.__new__(client)
    client.__init__.__wrapped__(made, options)  # type: ignore[attr-defined]
    return made


class _Text(str):
    """An annotation that `help()` shows without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class _Signature(inspect.Signature):
    """A signature of many options; `help` of Python 3.13 gives each its line otherwise."""

    def format(self, *, max_width: int | None = None, **how: Any) -> str:
        """Its text on one line; with a max_width, as `help` gives it, on lines that are full."""
        line: str = super().format(**how)  # type: ignore[misc]
        return line if max_width is None else textwrap.fill(line, _COLUMNS)


def _signature(kind: Any) -> inspect.Signature:
    return _Signature([
        inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY),
        *_parameters(kind),
    ])  # fmt: skip


def _parameters(kind: Any) -> Iterator[inspect.Parameter]:
    keyword_only = {item.name: item.kw_only for item in fields(kind)}
    for row in rows(kind):
        yield inspect.Parameter(
            row.name,
            inspect.Parameter.KEYWORD_ONLY
            if keyword_only[row.name]
            else inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=inspect.Parameter.empty if row.required else row.default,
            annotation=_Text(row.annotation),
        )


def explained(client: type[C]) -> type[C]:
    """Add the options and methods of a client to its docstring, a sentence each; `help` is short.

    The options of every client only by name. `help(PushConsumer.seek)` has the rest of a method.
    """
    if not client.__doc__:  # python -OO
        return client
    kind: Any = client.__init__.__kind__  # type: ignore[attr-defined]
    common = _last(kind)
    own = _listed(tuple(row for row in rows(kind) if row.name not in common))
    others = f"Options of every client, see help(mqclient.ClientOptions): {', '.join(common)}."
    text = inspect.cleandoc(client.__doc__)
    parts = [f"{text}\n\nOptions:\n{own}", textwrap.fill(others, _COLUMNS)]
    if methods := _methods(client):
        example = f"{client.__name__}.{min(methods, key=len)}"
        parts.append(f"\nMethods, in full by help({example}) and so on:")
        parts += [_filled(f"{name}: {_summary(method)}.") for name, method in methods.items()]
    client.__doc__ = "\n".join(parts)
    client._in_docstring = frozenset(methods)  # type: ignore[attr-defined]
    return client


def _methods(client: type) -> dict[str, Any]:
    """The public methods of a client, its own first."""
    found: dict[str, Any] = {}
    for base in client.__mro__[:-1]:
        for name, value in vars(base).items():
            if inspect.isfunction(value) and not name.startswith("_"):
                found.setdefault(name, value)
    return found


def _summary(method: Any) -> str:
    """The first sentence of a docstring."""
    paragraph = " ".join((inspect.getdoc(method) or "").partition("\n\n")[0].split())
    return re.split(r"(?<=[.;:]) ", paragraph, maxsplit=1)[0].rstrip(".;:")


def _listed(options: tuple[Row, ...]) -> str:
    """Options in words, one a line."""
    return "\n".join(_filled(_described(row)) for row in options)


def _filled(text: str) -> str:
    return textwrap.fill(text, _COLUMNS, initial_indent="  ", subsequent_indent="      ")


def _described(row: Row) -> str:
    """One option in words: its name, unit, range and meaning."""
    limits = " ".join(part for part in (row.range, row.unit) if part)
    return f"{row.name}{f' ({limits})' if limits else ''}: {row.option.about}."
