"""Times are shown in local time; the recordings were made in UTC. No saved context counts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.fixture(autouse=True)
def contexts_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The file of saved contexts, which does not exist yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("MQADMIN_CONTEXT", raising=False)
    return tmp_path / "config" / "mqadmin" / "contexts.json"
