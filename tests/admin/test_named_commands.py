"""Pages and docstrings name only commands that exist here, or say that they are RocketMQ's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mqadmin.catalogue import names

ROOT = Path(__file__).parent.parent.parent
NAMED = re.compile(r"(RocketMQ's\s+(?:own\s+)?)?`?mqadmin ([a-z]+[A-Z]\w*)")
TEXTS = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    *(ROOT / "docs").glob("*.md"),
    *(ROOT / "examples").rglob("*.*"),
    *(path for package in ROOT.glob("mq*") for path in package.rglob("*.py")),
]


def strangers(text: str) -> list[str]:
    """The commands that a text names as ours and that do not exist."""
    return [name for theirs, name in NAMED.findall(text) if not theirs and name not in names()]


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_named_command_exists(path: Path) -> None:
    if path.suffix in (".md", ".py"):
        assert not strangers(path.read_text()), f"name commands that exist in {path}"


def test_a_command_that_does_not_exist_is_found() -> None:
    assert strangers("for `mqadmin noSuchCommand`") == ["noSuchCommand"]
    assert not strangers("for RocketMQ's `mqadmin noSuchCommand`, `mqadmin topicRoute -t T`")
