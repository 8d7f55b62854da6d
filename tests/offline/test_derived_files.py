"""Short, empty and grown queue, index and checkpoint files: every tool answers, `verify` names it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mqstore.cli import main

FOLDERS = ("consumequeue", "consumequeue_ext", "index")


def derived_files(root: Path) -> list[Path]:
    """One file of each kind and queue, and the checkpoint."""
    found = [next(iter(sorted((root / folder).rglob("[0-9]" * 17 + "*"))), None) for folder in FOLDERS]
    return [root / "checkpoint", *(path for path in found if path)]


def damaged(content: bytes) -> Iterator[bytes]:
    """Contents of other lengths."""
    for length in (0, 1, 19, 39, 57, len(content) // 2, len(content) - 1):
        yield content[:length]
    yield content + b"\0"
    yield content + bytes(len(content))


@pytest.mark.parametrize("name", ["store", "store-ext"])
def test_any_length_of_a_derived_file(
    golden_store: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    root = shutil.copytree(golden_store(name), tmp_path / "store")
    assert main(["verify", str(root)]) == 0
    for path in derived_files(root):
        content = path.read_bytes()
        for number, other in enumerate(damaged(content)):
            path.write_bytes(other)
            out = tmp_path / f"{path.name}-{number}.csv"
            for words in (["ls"], ["dump"], ["export", "--to", str(out)]):
                assert main([words[0], str(root), *words[1:]]) in (0, 1), (path, len(other))
            capsys.readouterr()
            assert main(["verify", str(root)]) == 5, (path, len(other))
            said = capsys.readouterr().out
            assert path.name in said, (path, len(other), said[:2000])
        path.write_bytes(content)
    assert main(["verify", str(root)]) == 0
