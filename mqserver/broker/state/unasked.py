"""Names that clients created without an administrator: topics by their first send, groups by a
heartbeat, and committed offsets of groups, topics or queues that do not exist.

The state file says which client's address made each, so that no address takes more than its share
of a bound, also over a restart. What an administrator creates or changes is not in the file.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Literal

import msgspec

from mqserver.broker.state.bounds import Bounds

FILE = "unasked.json"
Kind = Literal["groups", "topics", "offsets"]


class Made(msgspec.Struct, array_like=True):
    """A name that a client created. source: the client's address, empty if it has no share. at_ms:
    wall-clock time of its creation or of its last member."""

    source: str
    at_ms: int


class MadeUnasked(msgspec.Struct):
    """The content of the file: rows by name."""

    groups: dict[str, Made] = msgspec.field(default_factory=dict)
    topics: dict[str, Made] = msgspec.field(default_factory=dict)
    offsets: dict[str, Made] = msgspec.field(default_factory=dict)

    def by_kind(self) -> dict[Kind, dict[str, Made]]:
        """The rows of each kind."""
        return {"groups": self.groups, "topics": self.topics, "offsets": self.offsets}


def read(text: bytes) -> MadeUnasked:
    """Parse the file. Raises ValueError if it has other content."""
    return msgspec.json.decode(text, type=MadeUnasked)


class Unasked:
    """The table. save: marks the file for saving. Methods may be called from any thread."""

    def __init__(
        self, bounds: Bounds, now_ms: Callable[[], int], save: Callable[[str], None]
    ) -> None:
        self._bounds = bounds
        self._now_ms = now_ms
        self._save = save
        self._lock = threading.Lock()
        self._made = MadeUnasked().by_kind()
        self._counts: Counter[tuple[Kind, str]] = Counter()

    def load(self, content: MadeUnasked) -> None:
        """Take the file's content."""
        with self._lock:
            self._made = content.by_kind()
            self._counts = Counter(
                (kind, made.source) for kind, rows in self._made.items() for made in rows.values()
            )

    def render(self) -> bytes:
        """The text of the file."""
        with self._lock:
            return msgspec.json.encode(MadeUnasked(**self._made))

    def share_is_full(self, kind: Kind, by: str, limit: int) -> str | None:
        """Why a client, "ip:port", may create no more names; None if it may."""
        source = self._bounds.source_of(by)
        share = self._bounds.share_of(limit)
        with self._lock:
            taken = self._counts[kind, source]
        if not source or taken < share:
            return None
        return f"clients at {source} had {taken} made, and {self._bounds.share_text(limit)}"

    def note(self, kind: Kind, name: str, by: str) -> None:
        """Record a name that was created for a client. by: "ip:port"."""
        source = self._bounds.source_of(by)
        with self._lock:
            self._forget(kind, name)
            self._made[kind][name] = Made(source, self._now_ms())
            self._counts[kind, source] += 1
        self._save(FILE)

    def touch(self, kind: Kind, name: str) -> None:
        """Record that a name is in use now."""
        with self._lock:
            if (made := self._made[kind].get(name)) is not None:
                made.at_ms = self._now_ms()

    def forget(self, kind: Kind, name: str) -> None:
        """Forget a name that was deleted, or that an administrator created."""
        with self._lock:
            is_known = self._forget(kind, name)
        if is_known:
            self._save(FILE)

    def older_than(self, kind: Kind, age_ms: int) -> list[str]:
        """The names whose creation and last use are longer ago than `age_ms`."""
        limit = self._now_ms() - age_ms
        with self._lock:
            return [name for name, made in self._made[kind].items() if made.at_ms < limit]

    def names(self, kind: Kind) -> list[str]:
        """All names of this kind that clients created."""
        with self._lock:
            return list(self._made[kind])

    def _forget(self, kind: Kind, name: str) -> bool:
        made = self._made[kind].pop(name, None)
        if made is None:
            return False
        self._counts[kind, made.source] -= 1
        if not self._counts[kind, made.source]:
            del self._counts[kind, made.source]
        return True
