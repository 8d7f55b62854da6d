"""The recorded sessions of tests/golden/wire, frame by frame."""

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent.parent.parent / "golden" / "wire"
SESSIONS = sorted(FOLDER.glob("*.jsonl.gz"))


@dataclass
class Recorded:
    """One line of a session: the bytes, and what RocketMQ's own classes read from them."""

    data: bytes
    line: dict[str, Any]

    @property
    def hand_made(self) -> bool:
        """True for a request that a test driver wrote, not RocketMQ: key order is the driver's."""
        return "label" in self.line and self.line["from"] == "client"

    @property
    def request_name(self) -> str | None:
        """Label of this request, or of the request that this reply answers."""
        return self.line.get("reply_to_name") or self.line.get("code_name")


def frames(session: Path) -> Iterator[Recorded]:
    with gzip.open(session, "rt", encoding="utf-8") as lines:
        for text in lines:
            line = json.loads(text)
            if "frame_hex" in line:
                yield Recorded(bytes.fromhex(line["frame_hex"]), line)
