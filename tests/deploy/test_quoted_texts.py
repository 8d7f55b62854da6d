"""Each text that docs/operations/troubleshooting.md quotes is in the sources."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.sources import ROOT, nodes_of, text_of

PAGE = ROOT / "docs" / "operations" / "troubleshooting.md"
PACKAGES = ("mqcommon", "mqstore", "mqclient", "mqadmin", "mqserver")
GAP = "…"
"""Stands for a value."""
ROW = re.compile(r"^\| (`.*?`) \|", re.MULTILINE)
PYTHON_FIELD = re.compile(r"%[-.\d]*[sdrfg]")
RUST_FIELD = re.compile(r"\{[\w.:?]*\}")
RUST_TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)


def quoted() -> list[str]:
    """The texts of the first columns; one row may have several."""
    return [text for row in ROW.findall(PAGE.read_text()) for text in re.findall(r"`([^`]+)`", row)]


def in_python(path: Path) -> Iterator[str]:
    for node in nodes_of(path):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield PYTHON_FIELD.sub(GAP, node.value)
        elif isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else GAP for part in node.values]
            yield "".join(map(str, parts))


def in_rust(path: Path) -> Iterator[str]:
    for found in RUST_TEXT.findall(text_of(path)):
        joined = re.sub(r"\\\n\s*", "", found).replace('\\"', '"')
        yield RUST_FIELD.sub(GAP, joined)


@cache
def texts() -> str:
    """All texts of the sources, one a line."""
    found = [
        text
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        for text in in_python(path)
    ]
    rust = (p for p in (ROOT / "rust").glob("*/src/**/*.rs") if "tests" not in p.stem)
    found += [text for path in rust if "tests" not in path.parts for text in in_rust(path)]
    lines = "\n".join(text.replace("\n", " ") for text in found)
    return re.sub(f"{GAP}+", GAP, lines)


@pytest.mark.parametrize("text", quoted())
def test_the_sources_have_it(text: str) -> None:
    bare = text.strip(f"{GAP} ")
    assert bare in texts()


def test_a_text_that_is_nowhere_is_noticed() -> None:
    assert len(quoted()) > 40
    assert "the broker has " + "hiccups" not in texts()
