"""The topics of a broker: built-in topics, created topics, creation by sends
(`TopicConfigManager`)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from mqcommon import names
from mqcommon.wire.bodies.common import DataVersion
from mqcommon.wire.bodies.topics import TopicConfig, TopicConfigSerializeWrapper
from mqcommon.wire.codes import ResponseCode
from mqserver.broker.state.bounds import Bounds
from mqserver.broker.state.table_text import TableText
from mqserver.broker.state.unasked import Unasked
from mqserver.config.settings import BrokerSettings
from mqserver.runtime.data_plane import Tables

log = logging.getLogger("mqserver.broker")

FILE = "topics.json"
READ, WRITE, INHERIT = 4, 2, 1
READ_WRITE = READ | WRITE
SCHEDULE_QUEUES = 18
BENCHMARK_QUEUES = 1024
CLUSTER_QUEUES = 16
UNIT, UNIT_SUB = 1, 2
DEAD_LETTER_QUEUES = 1
OURSELVES = "the broker"
"""The name in the log for a change that no client asked for."""


class NewTopic(Struct, frozen=True):
    """The parts of a send that describe a topic to create.

    topic: the template topic. queues: number of queues that the client wants. unit: unit mode.
    """

    topic: str
    queues: int
    unit: bool


def built_in(settings: BrokerSettings) -> dict[str, TopicConfig]:
    """The topics that every broker has."""
    template = settings.default_topic_queue_nums
    inherited = READ_WRITE | INHERIT
    rows = [
        _config(names.SELF_TEST_TOPIC, 1),
        _config(names.BENCHMARK_TOPIC, BENCHMARK_QUEUES),
        _config(
            settings.broker_cluster_name,
            CLUSTER_QUEUES,
            inherited if settings.cluster_topic_enable else INHERIT,
        ),
        _config(settings.broker_name, 1, inherited if settings.broker_topic_enable else INHERIT),
        _config(names.OFFSET_MOVED_TOPIC, 1),
        _config(names.SCHEDULE_TOPIC, SCHEDULE_QUEUES),
        _config(settings.broker_cluster_name + names.REPLY_SUFFIX, 1),
    ]
    if settings.auto_create_topic_enable:
        rows.append(_config(names.AUTO_CREATE_TOPIC, template, inherited))
    if settings.trace_topic_enable:
        rows.append(_config(settings.msg_trace_topic_name, 1))
    return {row.topic_name: row for row in rows}


def _config(name: str, queues: int, perm: int = READ_WRITE) -> TopicConfig:
    return TopicConfig(name, read_queue_nums=queues, write_queue_nums=queues, perm=perm)


class Topics:
    """The table of topics; every change is published, saved and announced.

    system: the built-in topics. now_ms: wall clock. save: marks the file for saving. announce:
    tells the NameServers that a topic was created; called without the lock, and waits for a short
    time. light: every light queue is a topic that is in no list (`enableLmq`,
    `LmqTopicConfigManager`). by: the client that asks for a change, "ip:port", for the log.
    bounds: limits on the topics that sends may create. unasked: records the created ones.
    """

    def __init__(
        self,
        system: Mapping[str, TopicConfig],
        tables: Tables,
        now_ms: Callable[[], int],
        save: Callable[[str], None],
        announce: Callable[[], None],
        light: bool = False,
        bounds: Bounds | None = None,
        unasked: Unasked | None = None,
    ) -> None:
        self._lock = threading.Lock()
        self._rows = dict(system)
        self._bounds = bounds or Bounds()
        self._unasked = unasked or Unasked(self._bounds, now_ms, save)
        self._unregistered: set[str] = set()
        self._text = TableText("topicConfigTable")
        self._retry_topics = 0
        self._system = frozenset(system) | names.SYSTEM_TOPICS
        self._tables = tables
        self._now_ms = now_ms
        self._save = save
        self._announce = announce
        self._light = light
        self.version = DataVersion(0, now_ms())

    def load(self, wrapper: TopicConfigSerializeWrapper | None) -> None:
        """Add the topics of the file to the built-in topics, and publish all."""
        with self._lock:
            if wrapper is not None:
                self._rows.update(wrapper.topic_config_table)
                self._retry_topics = sum(map(_is_retry, self._rows))
                self.version = wrapper.data_version
            self._publish(self._rows, replace_all=True)

    def copy(self, of_master: TopicConfigSerializeWrapper) -> None:
        """Take over a master's topics with their version, unless this table has that version.

        Topics that the master lacks go, but for the built-in ones (`SlaveSynchronize.
        syncTopicConfig`).
        """
        with self._lock:
            if of_master.data_version == self.version:
                return
            own = {name: row for name, row in self._rows.items() if name in self._system}
            self._rows = own | of_master.topic_config_table
            self._retry_topics = sum(map(_is_retry, self._rows))
            self.version = of_master.data_version
            self._publish(self._rows, replace_all=True)
            self._save(FILE)
        self._tables.forget_heartbeats()  # a group's next heartbeat makes its retry topic

    def render(self) -> bytes:
        """The text of the file in RocketMQ's form."""
        wrapper = self.wrapper()
        return self._text.render(wrapper.topic_config_table, wrapper.data_version)

    def wrapper(self) -> TopicConfigSerializeWrapper:
        """A copy of the table with its version (code 21)."""
        with self._lock:
            version = DataVersion(self.version.counter, self.version.timestamp)
            return TopicConfigSerializeWrapper(dict(self._rows), version)

    def take_changes(self) -> tuple[set[str], DataVersion]:
        """The topics that changed since the last call, and the version that includes them."""
        with self._lock:
            changed, self._unregistered = self._unregistered, set()
            return changed, DataVersion(self.version.counter, self.version.timestamp)

    def get(self, topic: str) -> TopicConfig | None:
        """One topic, None if it does not exist."""
        if self._light and topic.startswith(names.LIGHT_PREFIX):
            return _config(topic, 1)
        return self._rows.get(topic)

    def is_system(self, topic: str) -> bool:
        """Whether only the system may create this topic."""
        return topic in self._system or topic.startswith(names.SYSTEM_PREFIX)

    def put(self, config: TopicConfig, by: str = OURSELVES) -> None:
        """Create or replace a topic (code 17); the caller saves and registers."""
        if self._light and config.topic_name.startswith(names.LIGHT_PREFIX):
            return
        with self._lock:
            what = "changed" if config.topic_name in self._rows else "created"
            self._change({config.topic_name: config})
            self._unasked.forget("topics", config.topic_name)
        log.info("topic %s was %s by %s: %s", config.topic_name, what, by, shown(config))

    def remove(self, topic: str, by: str = OURSELVES) -> None:
        """Delete a topic (code 215); the caller saves."""
        with self._lock:
            self._unasked.forget("topics", topic)
            if self._rows.pop(topic, None) is not None:
                log.info("topic %s was deleted by %s", topic, by)
                self._retry_topics -= _is_retry(topic)
                self._next_version()
                self._tables.publish("topics", {topic: None})
                self._tables.forget_heartbeats()  # a group's next heartbeat makes its retry topic

    def system_names(self) -> list[str]:
        """The topics of the system (code 305)."""
        return sorted(self._system)

    def create_for_send(
        self, topic: str, wanted: NewTopic, auto_create: bool, by: str = OURSELVES
    ) -> TopicConfig | None:
        """Create a topic at its first send from the client's template topic.

        Returns None if the template does not allow that. The caller announces the new topic.
        Raises Refused if sends have created too many topics, in total or recently.
        """
        with self._lock:
            if topic in self._rows:
                return self._rows[topic]
            created = self._inherited(topic, wanted, auto_create, by)
        if created is not None:
            log.info("topic %s was created for a send from %s: %s", topic, by, shown(created))
        return created

    def _inherited(
        self, topic: str, wanted: NewTopic, auto_create: bool, by: str
    ) -> TopicConfig | None:
        base = self._rows.get(wanted.topic)
        if base is None:
            return None
        perm = base.perm
        if wanted.topic == names.AUTO_CREATE_TOPIC and not auto_create:
            perm = READ_WRITE
        if not perm & INHERIT:
            return None
        self._check_room(topic, by)
        if not _is_retry(topic):
            self._unasked.note("topics", topic, by)
        queues = max(0, min(wanted.queues, base.write_queue_nums))
        return self._create(
            replace(
                base,
                topic_name=topic,
                read_queue_nums=queues,
                write_queue_nums=queues,
                perm=perm & ~INHERIT,
                topic_sys_flag=unit_flag(topic, wanted.unit),
                order=False,
            )
        )

    def _check_room(self, topic: str, by: str) -> None:
        """Check the limits, for which all topics count, and the share of the client's address.
        Retry topics do not count, as their groups have a limit of their own."""
        if topic.startswith(names.RETRY_PREFIX):
            return
        limits = self._bounds.limits
        system = sum(name in self._rows for name in self._system)
        made = len(self._rows) - self._retry_topics - system
        limit = limits.auto_create_topic_max
        why = self._unasked.share_is_full("topics", by, limit)
        if made >= limit:
            why = f"the broker has {made} of autoCreateTopicMax={limit}"
        if why is not None:
            remark = (
                f"topic[{topic}] not exist, apply first please! Sends cannot create more topics, "
                f"as {why}"
            )
            raise self._bounds.refused(ResponseCode.TOPIC_NOT_EXIST, "autoCreateTopicMax", remark)
        if not self._bounds.creations.take(self._bounds.source_of(by)):
            rate = limits.auto_create_topic_per_second
            remark = (
                f"[FLOW CONTROL]topic[{topic}] is not created now, try again later: sends may "
                f"create autoCreateTopicPerSecond={rate} topics a second, of which "
                f"{self._bounds.share_text(rate)}"
            )
            raise self._bounds.refused(ResponseCode.SYSTEM_BUSY, "autoCreateTopicPerSecond", remark)

    def ensure(
        self, topic: str, queues: int, sys_flag: int = 0, by: str = OURSELVES
    ) -> TopicConfig:
        """A retry or dead-letter topic with at least `queues` queues; a change is announced."""
        found, is_new = self.ensured(topic, queues, sys_flag, by)
        if is_new:
            self._announce()
        return found

    def ensured(
        self, topic: str, queues: int, sys_flag: int = 0, by: str = OURSELVES
    ) -> tuple[TopicConfig, bool]:
        """Like `ensure` without the announcement; also returns whether the topic was changed.

        A caller that creates several topics announces them with one call of `announce`.
        """
        found = self._rows.get(topic)
        if found is not None and _has_queues(found, queues):
            return found, False
        with self._lock:
            found = self._rows.get(topic)
            if found is None:
                what = "created"
                row = TopicConfig(
                    topic,
                    read_queue_nums=queues,
                    write_queue_nums=queues,
                    perm=READ_WRITE,
                    topic_sys_flag=sys_flag,
                )
            elif _has_queues(found, queues):
                return found, False
            else:
                what = "enlarged"
                row = replace(
                    found,
                    read_queue_nums=max(queues, found.read_queue_nums),
                    write_queue_nums=max(queues, found.write_queue_nums),
                )
            self._create(row)
        log.info("topic %s was %s for %s: %s", topic, what, by, shown(row))
        return row, True

    def announce(self) -> None:
        """Tell the NameServers of the topics that `ensured` created."""
        self._announce()

    def set_ordered(self, topics: Iterable[str]) -> None:
        """Mark exactly these topics as ordered, as the NameServer says."""
        ordered = frozenset(topics)
        with self._lock:
            changed = {
                name: replace(row, order=name in ordered)
                for name, row in self._rows.items()
                if row.order != (name in ordered)
            }
            if changed:
                self._change(changed)
                self._save(FILE)

    def bump(self) -> None:
        """Raise the version without a change, so that NameServers accept the whole table again."""
        with self._lock:
            self._next_version()

    def _create(self, config: TopicConfig) -> TopicConfig:
        self._change({config.topic_name: config})
        self._save(FILE)
        return config

    def _change(self, rows: dict[str, TopicConfig]) -> None:
        fresh = [name for name in rows if name not in self._rows]
        self._retry_topics += sum(map(_is_retry, fresh))
        self._rows.update(rows)
        self._unregistered.update(rows)
        self._next_version()
        self._publish(rows)

    def _next_version(self) -> None:
        self.version = DataVersion(self.version.counter + 1, self._now_ms())

    def _publish(self, rows: Mapping[str, TopicConfig], replace_all: bool = False) -> None:
        published = {name: _row(config) for name, config in rows.items()}
        self._tables.publish("topics", published, replace=replace_all)


def _has_queues(config: TopicConfig, queues: int) -> bool:
    return min(config.read_queue_nums, config.write_queue_nums) >= queues


def _is_retry(topic: str) -> bool:
    return topic.startswith(names.RETRY_PREFIX)


def unit_flag(topic: str, unit: bool) -> int:
    """The system flag of a topic that is created in unit mode."""
    if not unit:
        return 0
    return UNIT_SUB if topic.startswith(names.RETRY_PREFIX) else UNIT


def shown(config: TopicConfig) -> str:
    """A topic in the form of RocketMQ's remarks."""
    letters = ((READ, "R"), (WRITE, "W"), (INHERIT, "X"))
    perm = "".join(letter if config.perm & bit else "-" for bit, letter in letters)
    return (
        f"TopicConfig [topicName={config.topic_name}, readQueueNums={config.read_queue_nums}, "
        f"writeQueueNums={config.write_queue_nums}, perm={perm}, "
        f"topicFilterType={config.topic_filter_type}, topicSysFlag={config.topic_sys_flag}, "
        f"order={str(config.order).lower()}]"
    )


def _row(config: TopicConfig) -> tuple[int, int, int, bool, bool]:
    return (
        config.perm,
        config.read_queue_nums,
        config.write_queue_nums,
        config.topic_filter_type == "MULTI_TAG",
        config.order,
    )
