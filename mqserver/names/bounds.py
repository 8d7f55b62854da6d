"""How much a NameServer remembers of what registrations make up: brokers, clusters, topics.

What is registered stays: a broker that is known registers again, whatever the bounds.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from mqclient.wire.codes import ResponseCode
from mqserver.refusals import Refusals
from mqserver.replies import Refused

log = logging.getLogger("mqserver.names")

NAME_CHARS_MAX = 255
"""Of a cluster, a broker or an address; the decoder bounds names of topics."""
FILTER_SERVERS_MAX = 64
"""Of one broker."""


class Limits(Protocol):
    """The settings of the same names; see `namesrv_table.py`."""

    @property
    def broker_registration_max(self) -> int:
        """Addresses of brokers, and brokers in clusters."""
        ...

    @property
    def broker_id_max(self) -> int:
        """Addresses of one broker name."""
        ...

    @property
    def broker_topic_max(self) -> int:
        """Topics of one broker name."""
        ...

    @property
    def topic_route_max(self) -> int:
        """Topics of all broker names."""
        ...


class DefaultLimits(NamedTuple):
    """Limits without a NameServer, for tests."""

    broker_registration_max: int = 10_000
    broker_id_max: int = 100
    broker_topic_max: int = 200_000
    topic_route_max: int = 2_000_000


class Bounds(Refusals):
    """Says what a registration may add. limits: the present settings."""

    def __init__(self, limits: Callable[[], Limits] = DefaultLimits) -> None:
        super().__init__(log)
        self._limits = limits

    @property
    def brokers(self) -> int:
        """Addresses that may be registered, and memberships of clusters."""
        return self._limits().broker_registration_max

    def check_ids(self, broker_name: str, count: int) -> None:
        """Whether a broker name with `count` addresses may get one more. Raises Refused."""
        limit = self._limits().broker_id_max
        if count >= limit:
            what = f"broker {broker_name} has {count} ids, and no more than {limit} are taken"
            raise self._full("brokerIdMax", what)

    def too_many_brokers(self, what: str) -> Refused:
        """What to raise when `brokers` is reached."""
        return self._full("brokerRegistrationMax", f"no more than {self.brokers} {what} are taken")

    def room_for_topics(self, own: int, all_brokers: int) -> tuple[int, str, int]:
        """How many topics a broker may add: their number, and setting and value that say so."""
        limits = self._limits()
        return min(
            (max(0, limits.broker_topic_max - own), "brokerTopicMax", limits.broker_topic_max),
            (max(0, limits.topic_route_max - all_brokers), "topicRouteMax", limits.topic_route_max),
        )

    def topics_left_out(self, broker_name: str, count: int, setting: str, limit: int) -> Refused:
        """What to raise when topics of a registration were not taken."""
        what = f"{count} topics of broker {broker_name} are left out, as there are {limit} already"
        return self._full(setting, what)

    def check_texts(self, texts: Iterable[str], filter_servers: list[str] | None) -> None:
        """Refuse what no broker says. Raises Refused."""
        servers = filter_servers or []
        if len(servers) > FILTER_SERVERS_MAX:
            remark = f"no more than {FILTER_SERVERS_MAX} filter servers of a broker are taken"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        for text in (*texts, *servers):
            if len(text) > NAME_CHARS_MAX:
                remark = f"{text[:64]!r} and so on has more than {NAME_CHARS_MAX} characters"
                raise Refused(ResponseCode.SYSTEM_ERROR, remark)

    def _full(self, setting: str, what: str) -> Refused:
        return self.refused(ResponseCode.SYSTEM_ERROR, setting, f"{what} ({setting})")
