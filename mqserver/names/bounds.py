"""Limits on what registrations can add to a NameServer: brokers, clusters and topics.

A known broker can always register again, whatever the limits.
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
"""Most characters of a cluster, broker or address; the decoder limits topic names."""
FILTER_SERVERS_MAX = 64
"""Most filter servers of one broker."""


class Limits(Protocol):
    """The settings of the same names; `namesrv_table.py` explains them."""

    @property
    def broker_registration_max(self) -> int:
        """Most broker addresses, and most brokers in clusters."""
        ...

    @property
    def broker_id_max(self) -> int:
        """Most addresses of one broker name."""
        ...

    @property
    def broker_topic_max(self) -> int:
        """Most topics of one broker name."""
        ...

    @property
    def topic_route_max(self) -> int:
        """Most topics of all broker names."""
        ...


class DefaultLimits(NamedTuple):
    """The default limits, for tests without a NameServer."""

    broker_registration_max: int = 10_000
    broker_id_max: int = 100
    broker_topic_max: int = 200_000
    topic_route_max: int = 2_000_000


class Bounds(Refusals):
    """Checks the additions of a registration. limits: returns the present settings."""

    def __init__(self, limits: Callable[[], Limits] = DefaultLimits) -> None:
        super().__init__(log)
        self._limits = limits

    @property
    def brokers(self) -> int:
        """Most broker addresses, and most brokers in clusters."""
        return self._limits().broker_registration_max

    def check_ids(self, broker_name: str, count: int) -> None:
        """Raises Refused if a broker name with `count` addresses may not get another one."""
        limit = self._limits().broker_id_max
        if count >= limit:
            what = f"broker {broker_name} has {count} ids, and the limit is {limit}"
            raise self._full("brokerIdMax", what)

    def too_many_brokers(self, what: str) -> Refused:
        """The refusal to raise when `brokers` is reached."""
        return self._full("brokerRegistrationMax", f"the limit is {self.brokers} {what}")

    def room_for_topics(self, own: int, all_brokers: int) -> tuple[int, str, int]:
        """The number of topics that a broker may add, with the setting and value of the limit."""
        limits = self._limits()
        return min(
            (max(0, limits.broker_topic_max - own), "brokerTopicMax", limits.broker_topic_max),
            (max(0, limits.topic_route_max - all_brokers), "topicRouteMax", limits.topic_route_max),
        )

    def topics_left_out(self, broker_name: str, count: int, setting: str, limit: int) -> Refused:
        """The refusal to raise when topics of a registration were left out."""
        what = f"left out {count} topics of broker {broker_name}, as there are {limit} already"
        return self._full(setting, what)

    def topics_refused(self, broker_name: str, flaws: list[str]) -> Refused:
        """The refusal to raise when topics of a registration cannot be as the broker says."""
        more = f" and {len(flaws) - 1} more topics" if len(flaws) > 1 else ""
        log.error("broker %s: left out %s%s", broker_name, flaws[0], more)
        return Refused(ResponseCode.SYSTEM_ERROR, f"left out {flaws[0]}{more}")

    def check_texts(self, texts: Iterable[str], filter_servers: list[str] | None) -> None:
        """Raises Refused for texts that are longer than any broker's."""
        servers = filter_servers or []
        if len(servers) > FILTER_SERVERS_MAX:
            remark = f"a broker may have at most {FILTER_SERVERS_MAX} filter servers"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        for text in (*texts, *servers):
            if len(text) > NAME_CHARS_MAX:
                remark = f"{text[:64]!r}... has more than {NAME_CHARS_MAX} characters"
                raise Refused(ResponseCode.SYSTEM_ERROR, remark)

    def _full(self, setting: str, what: str) -> Refused:
        return self.refused(ResponseCode.SYSTEM_ERROR, setting, f"{what} ({setting})")
