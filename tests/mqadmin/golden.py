"""A recorded cluster: answers requests with the frames that Java servers sent to Java's mqadmin."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from mqclient.errors import UnreachableError
from mqclient.wire.frame import Frame, decode

GOLDEN = Path(__file__).parent.parent / "golden" / "cli"


def text(name: str) -> str:
    """What Java's mqadmin printed, without the first line, which is the command line."""
    return (GOLDEN / f"{name}.txt").read_text().partition("\n")[2]


class RecordedCluster:
    """An engine that plays one recorded session. `asked` lists what was asked, in order."""

    client_id = "10.0.0.1@1"

    def __init__(self, session: str) -> None:
        self.asked: list[Frame] = []
        self._replies: dict[tuple[str, int, str], Frame] = {}
        with gzip.open(GOLDEN / "frames.jsonl.gz", "rt") as lines:
            for row in map(json.loads, lines):
                if row["session"] == session:
                    request = decode(bytes.fromhex(row["request_hex"]))
                    self._replies[_key(row["server"], request)] = decode(
                        bytes.fromhex(row["reply_hex"])
                    )
        assert self._replies, f"no recorded session {session!r}"

    async def start(self) -> None:
        pass

    async def close(self, timeout: float) -> None:
        pass

    async def call_namesrv(self, request: Frame, timeout: float) -> Frame:
        return self._answer("namesrv", request)

    async def call_broker(self, address: str, request: Frame, timeout: float) -> Frame:
        if address != "127.0.0.1:10911":
            raise UnreachableError(f"nothing listens at {address}", address)
        return self._answer("broker", request)

    def _answer(self, server: str, request: Frame) -> Frame:
        self.asked.append(request)
        key = _key(server, request)
        assert key in self._replies, f"Java did not ask this: {key}; it asked {list(self._replies)}"
        return self._replies[key]


def _key(server: str, request: Frame) -> tuple[str, int, str]:
    """Same server, same code, same fields."""
    return server, request.code, json.dumps(request.fields, sort_keys=True)
