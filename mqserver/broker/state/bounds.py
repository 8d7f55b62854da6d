"""Limits on what clients can create at a broker: topics, groups, offsets and memberships.

The limits hold for names that a client makes up. They do not stop an administrator.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import NamedTuple, Protocol

from mqcommon.wire.codes import ResponseCode
from mqserver.runtime.guard import host_of
from mqserver.runtime.processor_api import Refused
from mqserver.runtime.refusals import Refusals

log = logging.getLogger("mqserver.broker")

BURST_SECONDS = 10
"""Time in which an unused bucket fills up, in seconds."""
SOURCES_MAX = 1_024
"""Source addresses with a bucket of their own; the one used longest ago is forgotten."""
MEMBERSHIP_BYTES = 256
"""Assumed size of a membership or a subscription without its texts."""
CLIENT_HEARTBEATS = 2
"""Limit for the memberships of one client, as a multiple of `maxHeartbeatBytes`."""


class Limits(Protocol):
    """The settings of the same names; `broker_table.py` explains them."""

    @property
    def auto_create_topic_max(self) -> int:
        """Number of topics at which sends stop creating topics."""
        ...

    @property
    def auto_create_topic_per_second(self) -> int:
        """Topics that sends may create per second."""
        ...

    @property
    def auto_create_group_max(self) -> int:
        """Number of groups at which clients stop creating groups."""
        ...

    @property
    def client_group_max(self) -> int:
        """Most groups of one connection."""
        ...

    @property
    def source_share_percent(self) -> int:
        """Largest part of a bound for the clients of one source address."""
        ...

    @property
    def max_heartbeat_bytes(self) -> int:
        """Largest heartbeat; half of the limit for the memberships of one connection."""
        ...

    @property
    def max_subscription_bytes(self) -> int:
        """Limit for the memberships of all connections."""
        ...


class DefaultLimits(NamedTuple):
    """The default limits, for tests without a broker."""

    auto_create_topic_max: int = 10_000
    auto_create_topic_per_second: int = 100
    auto_create_group_max: int = 10_000
    client_group_max: int = 1_000
    source_share_percent: int = 50
    max_heartbeat_bytes: int = 1 << 20
    max_subscription_bytes: int = 128 << 20


class Bounds(Refusals):
    """The limits of one broker, with counts of the refusals.

    limits: returns the present settings. clock: monotonic seconds. trusts: whether a client,
    "ip:port", has no share of a bound: it is on this machine, or may administer.
    """

    def __init__(
        self,
        limits: Callable[[], Limits] = DefaultLimits,
        clock: Callable[[], float] = time.monotonic,
        trusts: Callable[[str], bool] = lambda _: True,
    ) -> None:
        super().__init__(log, clock)
        self._limits = limits
        self._trusts = trusts
        self.creations = Bucket(
            lambda: self.limits.auto_create_topic_per_second, self.share_of, clock
        )

    @property
    def limits(self) -> Limits:
        """The present settings."""
        return self._limits()

    def source_of(self, by: str) -> str:
        """The source address that a client, "ip:port", counts for; empty if it has no share."""
        is_address = by.rpartition(":")[2].isdecimal()
        return "" if not is_address or self._trusts(by) else host_of(by)

    def share_of(self, limit: int) -> int:
        """The share of one source address in a bound."""
        return max(1, limit * self.limits.source_share_percent // 100)

    def share_text(self, limit: int) -> str:
        """The share of one source address, for a remark."""
        percent = self.limits.source_share_percent
        return f"one address may take {self.share_of(limit)} (sourceSharePercent={percent})"


class Bucket:
    """A token bucket for all clients, and a smaller one for each source address.

    per_second: returns the present rate of all clients. share_of: returns the share of one source
    address in a rate. clock: monotonic seconds.
    """

    def __init__(
        self,
        per_second: Callable[[], int],
        share_of: Callable[[int], int],
        clock: Callable[[], float],
    ) -> None:
        self._per_second = per_second
        self._share_of = share_of
        self._clock = clock
        self._lock = threading.Lock()
        self._all = _Tokens()
        self._of_sources: OrderedDict[str, _Tokens] = OrderedDict()

    def take(self, source: str = "") -> bool:
        """Take one token; False if there is none. source: the client's source address, empty for
        a client without a share."""
        rate = self._per_second()
        with self._lock:
            now = self._clock()
            buckets = [(self._all, rate)]
            if source:
                buckets.append((self._of_source(source), self._share_of(rate)))
            is_there = min(tokens.fill(per_second, now) for tokens, per_second in buckets) >= 1
            for tokens, _ in buckets:
                tokens.left -= is_there
            return is_there

    def _of_source(self, source: str) -> _Tokens:
        tokens = self._of_sources.setdefault(source, _Tokens())
        self._of_sources.move_to_end(source)
        if len(self._of_sources) > SOURCES_MAX:
            self._of_sources.popitem(last=False)
        return tokens


class _Tokens:
    """The tokens of one bucket; a new bucket is full."""

    __slots__ = ("at", "left")

    def __init__(self) -> None:
        self.left = float("inf")
        self.at = 0.0

    def fill(self, per_second: int, now: float) -> float:
        """Add the tokens since the last call; returns the number of tokens."""
        self.left = min(per_second * BURST_SECONDS, self.left + (now - self.at) * per_second)
        self.at = now
        return self.left


class _Own:
    """The memberships of one connection: bytes by kind and group, and their sum."""

    __slots__ = ("bytes", "groups", "source")

    def __init__(self, source: str) -> None:
        self.source = source
        self.bytes = 0
        self.groups: dict[tuple[str, str], int] = {}


class Footprints:
    """The groups of each connection, and the approximate bytes that the broker keeps for them.

    Consumers and producers share one object; `kind` tells their groups apart.
    """

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._lock = threading.Lock()
        self._of: dict[int, _Own] = {}
        self._total = 0
        self._of_sources: Counter[str] = Counter()

    def take(
        self, connection: int, kind: str, group: str, text_bytes: int = 0, by: str = ""
    ) -> None:
        """Record a membership, or change its size. by: the client, "ip:port". Raises Refused at a
        limit."""
        size, key = text_bytes + len(group) + MEMBERSHIP_BYTES, (kind, group)
        with self._lock:
            own = self._of.get(connection) or _Own(self._bounds.source_of(by))
            more = size - own.groups.get(key, 0)
            self._check(own, key, more)
            own.groups[key] = size
            own.bytes += more
            self._of[connection] = own
            self._add(own, more)

    def _add(self, own: _Own, more: int) -> None:
        self._total += more
        self._of_sources[own.source] += more
        if not self._of_sources[own.source]:
            del self._of_sources[own.source]

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
        limit = limits.max_subscription_bytes
        if own.source and self._of_sources[own.source] + more > self._bounds.share_of(limit):
            remark = (
                f"the clients at {own.source} take their part of maxSubscriptionBytes={limit}: "
                f"{self._bounds.share_text(limit)}"
            )
            setting = "maxSubscriptionBytes"
            raise self._bounds.refused(ResponseCode.SYSTEM_ERROR, setting, remark)

    def give_back(self, connection: int, kind: str, group: str) -> None:
        """Remove a membership."""
        with self._lock:
            own = self._of.get(connection)
            if own is None:
                return
            size = own.groups.pop((kind, group), 0)
            own.bytes -= size
            self._add(own, -size)
            if not own.groups:
                del self._of[connection]

    def groups(self, connection: int, kind: str) -> list[str]:
        """The groups of a connection."""
        with self._lock:
            own = self._of.get(connection)
            return [group for one, group in own.groups if one == kind] if own else []

    def total(self) -> int:
        """The bytes of all memberships."""
        with self._lock:
            return self._total

    def _full(self, setting: str, limit: int, what: str) -> Refused:
        remark = f"the broker accepts at most {limit} {what} ({setting})"
        return self._bounds.refused(ResponseCode.SYSTEM_ERROR, setting, remark)
