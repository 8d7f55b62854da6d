"""Budgets follow the memory limit of the process's control group."""

from __future__ import annotations

from pathlib import Path

import pytest

from mqserver.broker import published
from mqserver.config.broker_table import BROKER
from mqserver.config.load import load
from mqserver.config.settings import broker_settings
from mqserver.runtime.memory import memory_limit, within_memory

MIB = 1 << 20


def _written(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.mark.parametrize(
    ("own", "files", "limit"),
    [
        ("0::/\n", {"memory.max": "536870912\n"}, 512 * MIB),
        ("0::/a/b\n", {"a/memory.max": "1048576", "a/b/memory.max": "max"}, MIB),
        ("0::/a\n", {"a/memory.max": "max"}, None),
        ("0::/a\n", {}, None),
        (
            "9:cpu,memory:/a\n0::/\n",
            {"memory/a/memory.limit_in_bytes": "1048576", "memory.max": "2097152"},
            MIB,
        ),
    ],
)
def test_the_smallest_limit_of_the_groups_counts(
    own: str, files: dict[str, str], limit: int | None, tmp_path: Path
) -> None:
    cgroups = _written(tmp_path / "cgroups", files)
    process = _written(tmp_path, {"own": own}) / "own"
    assert memory_limit(cgroups, process) == limit
    assert memory_limit(cgroups, tmp_path / "absent") is None


def test_a_budget_takes_at_most_an_eighth_of_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert within_memory(128 * MIB, None) == 128 * MIB
    assert within_memory(128 * MIB, 8192 * MIB) == 128 * MIB
    assert within_memory(128 * MIB, 512 * MIB) == 64 * MIB
    monkeypatch.setattr(published, "memory_limit", lambda: 256 * MIB)
    settings = broker_settings(load(BROKER))
    plane = published.plane_settings(settings, "127.0.0.1:1")
    budgets = ("max_large_bytes", "max_reply_bytes", "max_unfinished_bytes", "max_handoff_bytes")
    assert [plane[name] for name in budgets] == [32 * MIB] * 4
