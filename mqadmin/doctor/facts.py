"""The answers of all servers, on which the checks work."""

from __future__ import annotations

from dataclasses import dataclass, field

from mqclient.errors import RocketMQError
from mqcommon.message import MessageQueue
from mqcommon.wire.bodies.groups import (
    BrokerStatsItem,
    ConsumerConnection,
    GroupConfig,
    OffsetWrapper,
)
from mqcommon.wire.bodies.route import MASTER_ID, ClusterInfo
from mqcommon.wire.bodies.topics import TopicConfig, TopicOffset

__all__ = ["RUNTIME", "BrokerFacts", "Facts", "Progress", "Unanswered"]

RUNTIME = "runtime figures"
"""The question without whose answer little of a broker is known."""

Progress = dict[str, dict[MessageQueue, OffsetWrapper]]
"""The offsets of each group in its queues."""


@dataclass(frozen=True, slots=True)
class Unanswered:
    """A question that a server did not answer. what: the subject of the question."""

    what: str
    subject: str
    error: RocketMQError


@dataclass(slots=True)
class BrokerFacts:
    """One broker. failure: why it is not reached; then it was asked nothing else.

    asked_ms, answered_ms: local times around the answer with the runtime figures. first, second:
    offsets of groups, some seconds apart; masters only, as topics and groups are. extents: the
    queues of each user topic. accounts: keys of well-known accounts that the broker accepts.
    is_open: it accepts any account, because it trusts the address of this machine.
    """

    cluster: str
    name: str
    broker_id: int
    address: str
    failure: RocketMQError | None = None
    asked_ms: int = 0
    answered_ms: int = 0
    runtime: dict[str, str] = field(default_factory=dict)
    config: dict[str, str] = field(default_factory=dict)
    topics: dict[str, TopicConfig] = field(default_factory=dict)
    groups: dict[str, GroupConfig] = field(default_factory=dict)
    first: Progress = field(default_factory=dict)
    second: Progress = field(default_factory=dict)
    extents: dict[str, dict[MessageQueue, TopicOffset]] = field(default_factory=dict)
    accounts: list[str] = field(default_factory=list)
    is_open: bool = False

    @property
    def is_master(self) -> bool:
        """Whether it is the master of its name."""
        return self.broker_id == MASTER_ID

    @property
    def subject(self) -> str:
        """How findings name it."""
        role = "broker" if self.is_master else "slave"
        return f"{role} {self.name} at {self.address}"

    @property
    def has_accounts(self) -> bool | None:
        """Whether it asks clients for an account; None if it did not tell its configuration.

        RocketMQ 4.9's switch is aclEnable, RocketMQ 5.3's is authenticationEnabled.
        """
        switches = {self.config.get(name) for name in ("aclEnable", "authenticationEnabled")}
        return None if switches == {None} else "true" in switches

    def number(self, key: str) -> float | None:
        """A runtime figure, None if the broker does not give it."""
        try:
            return float(self.runtime[key])
        except (KeyError, ValueError):
            return None


@dataclass(slots=True)
class Facts:
    """Everything that was asked.

    namesrvs: the view of each NameServer, or why it did not answer. members: of each group that is
    online. returned: messages of a minute that a group's members returned, and that they got, by
    topic and group. dead_letters: messages that wait in a group's dead-letter topic. sample_s:
    seconds between the two samples of offsets. now_ms: local time of the second one.
    """

    namesrvs: dict[str, ClusterInfo | RocketMQError] = field(default_factory=dict)
    brokers: list[BrokerFacts] = field(default_factory=list)
    members: dict[str, ConsumerConnection] = field(default_factory=dict)
    returned: dict[tuple[str, str], tuple[BrokerStatsItem, BrokerStatsItem]] = field(
        default_factory=dict
    )
    dead_letters: dict[str, int] = field(default_factory=dict)
    unanswered: list[Unanswered] = field(default_factory=list)
    sample_s: float = 0.0
    now_ms: int = 0

    @property
    def living(self) -> list[BrokerFacts]:
        """The brokers that answered."""
        return [broker for broker in self.brokers if broker.failure is None]

    @property
    def masters(self) -> list[BrokerFacts]:
        """The masters that answered."""
        return [broker for broker in self.living if broker.is_master]

    @property
    def groups(self) -> list[str]:
        """Every group with a configuration or an offset."""
        names = {name for broker in self.masters for name in (*broker.groups, *broker.first)}
        return sorted(names)

    def progress(self, group: str) -> dict[MessageQueue, OffsetWrapper]:
        """The newest offsets of a group, from all brokers."""
        found: dict[MessageQueue, OffsetWrapper] = {}
        for broker in self.masters:
            found |= broker.second.get(group) or broker.first.get(group, {})
        return found
