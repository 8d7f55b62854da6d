"""The files of this repository for the tests that read them: each is read and parsed once."""

from __future__ import annotations

import ast
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent


@cache
def tracked(*patterns: str) -> list[Path]:
    """The files that git knows or would add."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [ROOT / line for line in listing.stdout.splitlines() if (ROOT / line).is_file()]


@cache
def text_of(path: Path) -> str:
    """The text of a file."""
    return path.read_text()


@cache
def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a Python file. Tests must not change it."""
    return ast.parse(text_of(path))


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of a Python file's syntax tree."""
    return tuple(ast.walk(tree_of(path)))


def name(path: Path) -> str:
    """The path from the repository's root."""
    return path.relative_to(ROOT).as_posix()
