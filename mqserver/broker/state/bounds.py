"""How much a broker remembers of what clients invent: topics, groups, offsets and memberships.

Everything here is for names that a client made up. What an administrator makes is not refused.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

from mqclient.wire.codes import ResponseCode
from mqserver.refusals import Refusals
from mqserver.replies import Refused

log = logging.getLogger("mqserver.broker")

BURST_SECONDS = 10
"""A bucket that was not used for this long is full."""
MEMBERSHIP_BYTES = 256
"""What a membership or a subscription counts for, beside its texts."""
CLIENT_HEARTBEATS = 2
"""What is remembered of a client is no more than this many of the longest heartbeats."""


class Limits(Protocol):
    """The settings of the same names; see `broker_table.py`."""

    @property
    def auto_create_topic_max(self) -> int:
        """Topics, from which on sends create none."""
        ...

    @property
    def auto_create_topic_per_second(self) -> int:
        """Topics that sends may create in a second."""
        ...

    @property
    def auto_create_group_max(self) -> int:
        """Groups, from which on clients create none."""
        ...

    @property
    def client_group_max(self) -> int:
        """Groups of one connection."""
        ...

    @property
    def max_heartbeat_bytes(self) -> int:
        """Of one heartbeat, and of what is remembered of one connection's."""
        ...

    @property
    def max_subscription_bytes(self) -> int:
        """What is remembered of the heartbeats of all connections."""
        ...


class DefaultLimits(NamedTuple):
    """Limits without a broker, for tests."""

    auto_create_topic_max: int = 10_000
    auto_create_topic_per_second: int = 100
    auto_create_group_max: int = 10_000
    client_group_max: int = 1_000
    max_heartbeat_bytes: int = 1 << 20
    max_subscription_bytes: int = 128 << 20


class Bounds(Refusals):
    """The bounds of one broker, and what was refused because of them.

    limits: the present settings. clock: monotonic seconds.
    """

    def __init__(
        self,
        limits: Callable[[], Limits] = DefaultLimits,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(log, clock)
        self._limits = limits
        self.creations = Bucket(lambda: self.limits.auto_create_topic_per_second, clock)

    @property
    def limits(self) -> Limits:
        """The settings as they are now."""
        return self._limits()


class Bucket:
    """A rate with room for a burst. per_second: the present rate. clock: monotonic seconds."""

    def __init__(self, per_second: Callable[[], int], clock: Callable[[], float]) -> None:
        self._per_second = per_second
        self._clock = clock
        self._lock = threading.Lock()
        self._at = clock()
        self._tokens: float | None = None

    def take(self) -> bool:
        """Take one, if there is one."""
        rate = self._per_second()
        with self._lock:
            now, full = self._clock(), float(rate * BURST_SECONDS)
            left = full if self._tokens is None else self._tokens + (now - self._at) * rate
            left, self._at = min(full, left), now
            is_there = left >= 1
            self._tokens = left - is_there
            return is_there


class _Own:
    """What one connection takes: bytes by kind and group, and their sum."""

    __slots__ = ("bytes", "groups")

    def __init__(self) -> None:
        self.bytes = 0
        self.groups: dict[tuple[str, str], int] = {}


class Footprints:
    """What each connection has the broker remember: its groups, and about how many bytes.

    One for consumers and producers together: `kind` tells their groups apart.
    """

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._lock = threading.Lock()
        self._of: dict[int, _Own] = {}
        self._total = 0

    def take(self, connection: int, kind: str, group: str, text_bytes: int = 0) -> None:
        """Remember a membership, or change what it takes. Raises Refused at a bound."""
        size, key = text_bytes + len(group) + MEMBERSHIP_BYTES, (kind, group)
        with self._lock:
            own = self._of.get(connection) or _Own()
            more = size - own.groups.get(key, 0)
            self._check(own, key, more)
            own.groups[key] = size
            own.bytes += more
            self._of[connection] = own
            self._total += more

    def _check(self, own: _Own, key: tuple[str, str], more: int) -> None:
        limits = self._bounds.limits
        if key not in own.groups and len(own.groups) >= limits.client_group_max:
            raise self._full("clientGroupMax", limits.client_group_max, "groups of one client")
        if more <= 0:
            return
        if own.bytes + more > CLIENT_HEARTBEATS * limits.max_heartbeat_bytes:
            what = "bytes of subscriptions of one client"
            most = CLIENT_HEARTBEATS * limits.max_heartbeat_bytes
            raise self._full("maxHeartbeatBytes", most, what)
        if self._total + more > limits.max_subscription_bytes:
            what = "bytes of subscriptions of all clients"
            raise self._full("maxSubscriptionBytes", limits.max_subscription_bytes, what)

    def give_back(self, connection: int, kind: str, group: str) -> None:
        """A membership ended."""
        with self._lock:
            own = self._of.get(connection)
            if own is None:
                return
            size = own.groups.pop((kind, group), 0)
            own.bytes -= size
            self._total -= size
            if not own.groups:
                del self._of[connection]

    def groups(self, connection: int, kind: str) -> list[str]:
        """The groups that a connection is a member of."""
        with self._lock:
            own = self._of.get(connection)
            return [group for one, group in own.groups if one == kind] if own else []

    def total(self) -> int:
        """Bytes of all."""
        with self._lock:
            return self._total

    def _full(self, setting: str, limit: int, what: str) -> Refused:
        remark = f"no more than {limit} {what} are taken ({setting})"
        return self._bounds.refused(ResponseCode.SYSTEM_ERROR, setting, remark)
