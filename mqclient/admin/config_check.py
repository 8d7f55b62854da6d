"""Checks the configurations that a program gives, before a broker gets them."""

from __future__ import annotations

from typing import Any, TypeVar, get_type_hints

from mqcommon.wire.bodies.groups import GroupConfig
from mqcommon.wire.bodies.topics import TopicConfig

C = TypeVar("C", TopicConfig, GroupConfig)

INT_MIN, INT_MAX = -(1 << 31), (1 << 31) - 1
"""The range of `int` of Java, in which the brokers keep numbers."""


def checked(config: Any, kind: type[C]) -> C:
    """The configuration as it is. Raises TypeError or ValueError naming the field and its value."""
    if not isinstance(config, kind):
        raise TypeError(f"config must be a {kind.__name__}, not {config!r}")
    for name, wanted in get_type_hints(kind).items():
        if wanted not in (str, int, bool):  # a class variable
            continue
        value, what = getattr(config, name), f"{kind.__name__}.{name}"
        if type(value) is not wanted:
            raise TypeError(f"{what} must be {wanted.__name__}, not {value!r}")
        if wanted is int and not INT_MIN <= value <= INT_MAX:
            raise ValueError(f"{what} must fit 32 bits, not {value}")
        if wanted is str and not value.strip():
            raise ValueError(f"{what} must not be blank")
    return config
