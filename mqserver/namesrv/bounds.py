"""Limits on what registrations can add to a NameServer: brokers, clusters and topics.

A known broker can always register again, whatever the limits.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from mqcommon.wire.codes import ResponseCode
from mqserver.runtime.processor_api import Refused
from mqserver.runtime.refusals import Refusals

log = logging.getLogger("mqserver.namesrv")

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

    @property
    def source_share_percent(self) -> int:
        """Largest part of a bound for the brokers of one source address."""
        ...


class DefaultLimits(NamedTuple):
    """The default limits, for tests without a NameServer."""

    broker_registration_max: int = 10_000
    broker_id_max: int = 100
    broker_topic_max: int = 200_000
    topic_route_max: int = 2_000_000
    source_share_percent: int = 50


class Bounds(Refusals):
    """Checks the additions of a registration.

    limits: returns the present settings. trusts: whether a source address has no share of a bound:
    it is this machine's, or may administer.
    """

    def __init__(
        self,
        limits: Callable[[], Limits] = DefaultLimits,
        trusts: Callable[[str], bool] = lambda _: True,
    ) -> None:
        super().__init__(log)
        self._limits = limits
        self._trusts = trusts

    @property
    def brokers(self) -> int:
        """Most broker addresses, and most brokers in clusters."""
        return self._limits().broker_registration_max

    def has_share(self, source: str) -> bool:
        """Whether the brokers of a source address may take only a share of each bound."""
        return self._limits().source_share_percent < 100 and not self._trusts(source)

    def check_ids(self, broker_name: str, source: str, of_source: int, count: int) -> None:
        """Raises Refused if a broker name may not get another address from a source.

        count: addresses of the broker name. of_source: those among them from this source, of a
        source with a share.
        """
        limit = self._limits().broker_id_max
        if count >= limit:
            what = f"broker {broker_name} has {count} ids, and the limit is {limit}"
            raise self._full("brokerIdMax", what)
        if of_source >= self._share_of(limit):
            raise self._share_is_full("brokerIdMax", source, limit, f"ids of broker {broker_name}")

    def check_brokers(self, what: str, source: str, of_source: int, count: int) -> None:
        """Raises Refused if there may not be another one of the things that `what` names.

        count: how many there are. of_source: those among them from this source, of a source with a
        share.
        """
        if count >= self.brokers:
            raise self._full("brokerRegistrationMax", f"the limit is {self.brokers} {what}")
        if of_source >= self._share_of(self.brokers):
            raise self._share_is_full("brokerRegistrationMax", source, self.brokers, what)

    def room_for_topics(
        self, own: int, of_source: int | None, all_brokers: int
    ) -> tuple[int, str, str]:
        """The number of topics that a broker may add, with the limit's setting and a reason.

        own, of_source, all_brokers: the topics of the broker, of the brokers of its source address,
        and of all. of_source: None for a source without a share.
        """
        limits = self._limits()
        most, routes = limits.broker_topic_max, limits.topic_route_max
        rooms = [
            (most - own, "brokerTopicMax", f"as there are {most} already"),
            (routes - all_brokers, "topicRouteMax", f"as there are {routes} already"),
        ]
        if of_source is not None:
            share = self._share_of(routes)
            why = f"as one source address may register {share} of {routes} topics"
            rooms.append((share - of_source, "topicRouteMax", why))
        room, setting, why = min(rooms)
        return max(0, room), setting, why

    def topics_left_out(self, broker_name: str, count: int, setting: str, why: str) -> Refused:
        """The refusal to raise when topics of a registration were left out."""
        return self._full(setting, f"left out {count} topics of broker {broker_name}, {why}")

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

    def _share_of(self, limit: int) -> int:
        return max(1, limit * self._limits().source_share_percent // 100)

    def _share_is_full(self, setting: str, source: str, limit: int, what: str) -> Refused:
        percent = self._limits().source_share_percent
        why = (
            f"the brokers at {source} take their share of {setting}={limit} {what}: one source "
            f"address may take {self._share_of(limit)} (sourceSharePercent={percent})"
        )
        return self.refused(ResponseCode.SYSTEM_ERROR, setting, why)

    def _full(self, setting: str, what: str) -> Refused:
        return self.refused(ResponseCode.SYSTEM_ERROR, setting, f"{what} ({setting})")
