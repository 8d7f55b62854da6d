"""The late dataclass is the standard one in every way that a caller can see."""

import copy
import dataclasses
import inspect
import pickle
from dataclasses import FrozenInstanceError, field, fields, replace
from typing import Any

import pytest

import mqclient
import mqstore
from mqstore.lean import dataclass


@dataclass
class Plain:
    """Mutable, with a factory."""

    name: str
    items: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Frozen:
    """As headers are."""

    number: int
    text: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wider(Frozen):
    """A header with more."""

    more: int = 7


@dataclass(frozen=True, slots=True, order=True)
class Ordered:
    """As queues are."""

    topic: str
    queue_id: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class StandardWider:
    """What `Wider` is, by the standard decorator."""

    number: int
    text: str | None = None
    more: int = 7


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class StandardOrdered:
    """What `Ordered` is, by the standard decorator."""

    topic: str
    queue_id: int


@dataclass(slots=True)
class Checked:
    """With what follows the fields."""

    low: int
    high: int = 9

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError("low is above high")

    def __repr__(self) -> str:
        return "of its own"


def test_values_defaults_and_factories() -> None:
    one, other = Plain("a"), Plain(name="a")
    assert one == other and one.items is not other.items
    assert repr(one) == "Plain(name='a', items=[])"
    assert one != Plain("b")
    assert replace(one, name="c") == Plain("c")
    assert [item.name for item in fields(Plain)] == ["name", "items"]
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)


def test_a_wrong_call_is_named_as_ever() -> None:
    call: Any = Frozen
    with pytest.raises(TypeError, match=r"Frozen.__init__\(\) missing 1 required keyword-only"):
        call()
    with pytest.raises(TypeError, match="unexpected keyword argument 'what'"):
        call(number=1, what=2)


def test_frozen_ones_are_frozen_hashed_and_have_slots() -> None:
    value: Any = Frozen(number=1)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'number'"):
        value.number = 2
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'number'"):
        del value.number
    assert value == Frozen(number=1) and hash(value) == hash(Frozen(number=1))
    assert not hasattr(value, "__dict__")
    assert dataclasses.asdict(value) == {"number": 1, "text": None}


def test_one_may_build_on_another() -> None:
    wide = Wider(number=1)
    assert repr(wide) == "Wider(number=1, text=None, more=7)"
    assert (wide.more, wide != Frozen(number=1)) == (7, True)


def test_order() -> None:
    assert sorted([Ordered("b", 0), Ordered("a", 1), Ordered("a", 0)]) == [
        Ordered("a", 0),
        Ordered("a", 1),
        Ordered("b", 0),
    ]
    assert Ordered("a", 1) >= Ordered("a", 1) > Ordered("a", 0)


@pytest.mark.parametrize("value", [Frozen(number=3), Wider(number=1), Ordered("t", 1), Plain("p")])
def test_copies_and_pickles(value: object) -> None:
    assert copy.copy(value) == value == copy.deepcopy(value)
    assert pickle.loads(pickle.dumps(value)) == value


@pytest.mark.parametrize("package", [mqstore, mqclient])
def test_classes_that_users_make_show_how(package: Any) -> None:
    public = [getattr(package, name) for name in package.__all__]
    made = [kind for kind in public if isinstance(kind, type) and dataclasses.is_dataclass(kind)]
    assert made
    for kind in made:
        wanted = {item.name for item in fields(kind) if item.init}
        assert wanted <= set(inspect.signature(kind).parameters), kind


def test_signatures_are_the_standard_ones() -> None:
    for late in (Plain, Frozen, Wider, Ordered, Checked):
        assert "values" not in str(inspect.signature(late))
    assert str(inspect.signature(Wider)) == str(inspect.signature(StandardWider))
    assert str(inspect.signature(Ordered)) == str(inspect.signature(StandardOrdered))


def test_what_a_class_writes_itself_stays() -> None:
    with pytest.raises(ValueError, match="low is above high"):
        Checked(10)
    assert repr(Checked(1)) == "of its own"
