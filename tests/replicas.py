"""What brokers say of their logs, and the bytes of the logs."""

from __future__ import annotations

from pathlib import Path

from mqcommon.wire.bodies.common import KVTable
from mqcommon.wire.codes import RequestCode as Code
from mqcommon.wire.frame import Frame
from mqserver.embedded.raw_client import ask


def figures_of(address: str) -> dict[str, str]:
    """Code 28: the figures of a broker."""
    return KVTable.from_json(ask(address, Frame(Code.GET_BROKER_RUNTIME_INFO)).body).table


def end_of(address: str) -> int:
    """The end of a broker's log."""
    return int(figures_of(address)["commitLogMaxOffset"])


def log_bytes(store: Path, start: int, end: int) -> bytes:
    """The bytes of a store's log from `start` to `end`; its files are without a hole."""
    files = sorted(file for file in (store / "commitlog").iterdir() if file.name.isdigit())
    first = int(files[0].name)
    assert first <= start, f"the log of {store} begins at {first}"
    return b"".join(file.read_bytes() for file in files)[start - first : end - first]
