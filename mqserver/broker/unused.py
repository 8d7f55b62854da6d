"""Takes back topics, groups and offsets that were made unasked and never used."""

from __future__ import annotations

import logging

from mqcommon import names
from mqserver.broker.context import BrokerContext
from mqserver.broker.processors.offset import why_unknown
from mqserver.broker.state import groups, topics

log = logging.getLogger("mqserver.broker")
HOUR_MS = 3_600_000


def take_back_unused(broker: BrokerContext) -> None:
    """Delete topics and groups that clients had made, and that had no message, no committed offset
    and no member for `unusedUnaskedHours`; and committed offsets whose group, topic or queue does
    not exist after this time."""
    hours = broker.settings.unused_unasked_hours
    for group in broker.unasked.names("groups"):
        if broker.consumers.get(group) is not None:
            broker.unasked.touch("groups", group)
    _forget_known_offsets(broker)
    if hours == 0:
        return
    for name in broker.unasked.older_than("offsets", hours * HOUR_MS):
        broker.store.remove_offset(*_place(name))
        broker.unasked.forget("offsets", name)
    for group in broker.unasked.older_than("groups", hours * HOUR_MS):
        _take_back_group(broker, group)
    committed = {key.partition("@")[0] for key in broker.store.committed_all()}
    for topic in broker.unasked.older_than("topics", hours * HOUR_MS):
        if topic in committed or broker.consumers.groups_of_topic(topic):
            broker.unasked.touch("topics", topic)
        else:
            _take_back_topic(broker, topic)


def _forget_known_offsets(broker: BrokerContext) -> None:
    """Release the shares of offsets that are deleted or whose group, topic and queue exist now."""
    for name in broker.unasked.names("offsets"):
        place = _place(name)
        if broker.store.committed(*place) is None or why_unknown(broker, *place) is None:
            broker.unasked.forget("offsets", name)


def _place(name: str) -> tuple[str, str, int]:
    """The group, topic and queue of an offset's name."""
    rest, _, queue_id = name.rpartition("@")
    topic, _, group = rest.rpartition("@")
    return group, topic, int(queue_id)


def _take_back_group(broker: BrokerContext, group: str) -> None:
    config = broker.groups.get(group)
    if config is None:
        broker.unasked.forget("groups", group)
        return
    retry = names.retry_topic(group)
    dead = broker.topics.get(names.dead_letter_topic(group))
    has_retries = _has_messages(broker, retry, config.retry_queue_nums)
    if broker.store.committed_of_group(group) or has_retries or dead is not None:
        return
    broker.groups.remove(group)
    if broker.consumers.get(group) is not None:
        broker.groups.put(config)  # a client joined it meanwhile
        broker.unasked.note("groups", group, "")
        return
    broker.saver.mark(groups.FILE)
    _take_back_topic(broker, retry)
    log.info("group %r was made for a client and never used, so it was deleted", group)


def _take_back_topic(broker: BrokerContext, topic: str) -> None:
    config = broker.topics.get(topic)
    if config is None:
        broker.unasked.forget("topics", topic)
        return
    queues = max(config.read_queue_nums, config.write_queue_nums)
    if _has_messages(broker, topic, queues):
        return
    broker.topics.remove(topic)
    if _has_messages(broker, topic, queues):  # a client sent one meanwhile
        broker.topics.put(config)
        broker.unasked.note("topics", topic, "")
    else:
        log.info("topic %s was made for a client and never used, so it was deleted", topic)
    broker.saver.mark(topics.FILE)


def _has_messages(broker: BrokerContext, topic: str, queues: int) -> bool:
    return any(broker.store.max_offset(topic, queue_id) > 0 for queue_id in range(queues))
