"""Every test has one kind, by its folder."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest

from tests import kinds

ROOT = Path(__file__).parent.parent


def test_every_folder_of_tests_has_a_kind() -> None:
    found = {str(path.parent.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py")}
    assert found == set(kinds.FOLDERS), "tests/kinds.py: FOLDERS has a line for each of them"


def test_this_session_has_marked_its_tests(request: pytest.FixtureRequest) -> None:
    for item in request.session.items:
        marked = [mark.name for mark in item.iter_markers() if mark.name in kinds.FOLDERS.values()]
        assert len(set(marked)) == 1, f"{item.nodeid}: {marked}"


def test_a_module_that_starts_servers_is_no_unit_test() -> None:
    module = ModuleType("test_some")
    assert kinds.kind_of("tests/client/test_some.py", module) == "unit"
    vars(module)["Standalone"] = type(
        "Standalone", (), {"__module__": "mqserver.embedded.standalone"}
    )
    assert kinds.kind_of("tests/client/test_some.py", module) == "server"
    assert kinds.kind_of("tests/spark/test_some.py", module) == "spark"
    assert kinds.kind_of("tests/test_tidy.py", sys.modules[__name__]) == "unit"
    with pytest.raises(KeyError):
        kinds.kind_of("tests/elsewhere/test_some.py", module)


@pytest.mark.parametrize("name", sorted(kinds.STARTERS))
def test_what_starts_servers_is_a_module(name: str) -> None:
    assert find_spec(name) is not None, "tests/kinds.py: STARTERS names modules that are there"
