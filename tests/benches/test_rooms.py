"""Layers of the benches: runnable files in one folder, shared code in another, no import back."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from benches.__main__ import BY_HAND, NAMES

ROOT = Path(__file__).parents[2] / "benches"
FILES = sorted(ROOT.rglob("*.py"))
CLI = "mqclient.cli.bench"
"""The one command module that benches use: the load generator's functions."""


def imported(path: Path) -> Iterator[tuple[str, str]]:
    """Imported modules, and the names imported from them."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)


@pytest.mark.parametrize("name", [*NAMES, *BY_HAND])
def test_a_name_is_a_case(name: str) -> None:
    assert import_module(f"benches.cases.{name}").main


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_imports_what_it_may(path: Path) -> None:
    for module, name in imported(path):
        assert not module.startswith("tests"), f"{module}: of the tests; see scripts/"
        assert not name.startswith("_") or module in ("mqcommon", "__future__"), f"{module}.{name}"
        assert ".cli" not in module or module == CLI, f"{module}: a command"
        if path.is_relative_to(ROOT / "lib"):
            assert not module.startswith("benches.cases"), f"{module}: helpers know no case"
