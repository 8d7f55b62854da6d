"""The groups of methods of the blocking Admin: each runs the asyncio method to its end.

`make pages` writes this file from `mqclient/admin/`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

from mqclient.admin import (
    access,
    brokers,
    dead_letters,
    groups,
    lag,
    messages,
    namesrv,
    offsets,
    plans,
    producers,
    resets,
    topics,
)
from mqclient.blocking.loop_thread import LoopThread

P = ParamSpec("P")
R = TypeVar("R")


class BlockingRoom:
    """A group of methods: the asyncio one, and where to run its coroutines."""

    def __init__(self, client: Any, thread: Callable[[], LoopThread]) -> None:
        self._async = client
        self._thread = thread


def _blocking(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[BlockingRoom, P], R]:
    """The method that runs an asyncio one to its end; same arguments, result and errors."""

    @functools.wraps(method)
    def run(room: BlockingRoom, /, *arguments: P.args, **options: P.kwargs) -> R:
        return room._thread().run(method(room._async, *arguments, **options))

    return run


class Access(BlockingRoom):
    """Accounts and white lists of one broker. All raise BrokerError if the broker refuses."""

    put_account = _blocking(access.Access.put_account)
    delete_account = _blocking(access.Access.delete_account)
    set_white = _blocking(access.Access.set_white)
    versions = _blocking(access.Access.versions)
    config = _blocking(access.Access.config)


class Brokers(BlockingRoom):
    """Clusters, brokers, their runtime figures and configuration."""

    clusters = _blocking(brokers.Brokers.clusters)
    masters = _blocking(brokers.Brokers.masters)
    addresses = _blocking(brokers.Brokers.addresses)
    chosen = _blocking(brokers.Brokers.chosen)
    names = _blocking(brokers.Brokers.names)
    name_of = _blocking(brokers.Brokers.name_of)
    runtime = _blocking(brokers.Brokers.runtime)
    stats = _blocking(brokers.Brokers.stats)
    consume_stats = _blocking(brokers.Brokers.consume_stats)
    config = _blocking(brokers.Brokers.config)
    update_config = _blocking(brokers.Brokers.update_config)
    consume_queue = _blocking(brokers.Brokers.consume_queue)
    clean_expired_queues = _blocking(brokers.Brokers.clean_expired_queues)
    delete_expired_logs = _blocking(brokers.Brokers.delete_expired_logs)
    clean_unused_topics = _blocking(brokers.Brokers.clean_unused_topics)


class DeadLetters(BlockingRoom):
    """Messages that groups could not consume. All raise NoRouteError for a group without any."""

    topics = _blocking(dead_letters.DeadLetters.topics)
    topic = _blocking(dead_letters.DeadLetters.topic)
    read = _blocking(dead_letters.DeadLetters.read)
    redrive = _blocking(dead_letters.DeadLetters.redrive)
    redrive_some = _blocking(dead_letters.DeadLetters.redrive_some)
    purge = _blocking(dead_letters.DeadLetters.purge)


class Groups(BlockingRoom):
    """Consumer groups of a cluster."""

    names = _blocking(groups.Groups.names)
    update = _blocking(groups.Groups.update)
    configs = _blocking(groups.Groups.configs)
    config = _blocking(groups.Groups.config)
    on_all_brokers = _blocking(groups.Groups.on_all_brokers)
    user_configs = _blocking(groups.Groups.user_configs)
    user_table = _blocking(groups.Groups.user_table)
    delete = _blocking(groups.Groups.delete)
    connection = _blocking(groups.Groups.connection)
    running_info = _blocking(groups.Groups.running_info)


class Lags(BlockingRoom):
    """How far groups are behind. A lag is never negative, and deleted messages do not count."""

    of = _blocking(lag.Lags.of)


class Messages(BlockingRoom):
    """Messages by id, and their fate."""

    view = _blocking(messages.Messages.view)
    query = _blocking(messages.Messages.query)
    copies = _blocking(messages.Messages.copies)
    trace = _blocking(messages.Messages.trace)
    read = _blocking(messages.Messages.read)
    resume_check = _blocking(messages.Messages.resume_check)
    consume_directly = _blocking(messages.Messages.consume_directly)
    track = _blocking(messages.Messages.track)


class NameServers(BlockingRoom):
    """NameServers. A change goes to all of them, because they do not tell each other.

    Raises the first error after all were asked.
    """

    addresses = _blocking(namesrv.NameServers.addresses)
    config = _blocking(namesrv.NameServers.config)
    update_config = _blocking(namesrv.NameServers.update_config)
    kv = _blocking(namesrv.NameServers.kv)
    kv_list = _blocking(namesrv.NameServers.kv_list)
    put_kv = _blocking(namesrv.NameServers.put_kv)
    delete_kv = _blocking(namesrv.NameServers.delete_kv)
    wipe_write_perm = _blocking(namesrv.NameServers.wipe_write_perm)
    add_write_perm = _blocking(namesrv.NameServers.add_write_perm)


class Offsets(BlockingRoom):
    """Offsets of queues and groups."""

    progress = _blocking(offsets.Offsets.progress)
    unreadable = _blocking(offsets.Offsets.unreadable)
    minimum = _blocking(offsets.Offsets.minimum)
    maximum = _blocking(offsets.Offsets.maximum)
    at_time = _blocking(offsets.Offsets.at_time)
    earliest_time = _blocking(offsets.Offsets.earliest_time)
    of_group = _blocking(offsets.Offsets.of_group)
    of_members = _blocking(offsets.Offsets.of_members)
    committed = _blocking(offsets.Offsets.committed)
    commit = _blocking(offsets.Offsets.commit)


class Plans(BlockingRoom):
    """Plans of changes of groups' offsets. A plan changes nothing until it is given to `apply`.

    queues: only these queues of the topic; None is all queues that consumers read. All raise
    NoRouteError for an unknown topic, and RocketMQError if a queue's broker has no master.
    """

    reset = _blocking(plans.Plans.reset)
    copy = _blocking(plans.Plans.copy)
    put = _blocking(plans.Plans.put)
    apply = _blocking(plans.Plans.apply)


class Producers(BlockingRoom):
    """Producer groups and their members."""

    connection = _blocking(producers.Producers.connection)
    all = _blocking(producers.Producers.all)


class Resets(BlockingRoom):
    """Moves groups to another time.

    to: an aware datetime, milliseconds since 1970, or END_MS for the end of each queue. force:
    move forward too; without it no offset becomes higher.
    """

    reset = _blocking(resets.Resets.reset)
    online = _blocking(resets.Resets.online)
    offline = _blocking(resets.Resets.offline)
    clone = _blocking(resets.Resets.clone)
    copy = _blocking(resets.Resets.copy)


class Topics(BlockingRoom):
    """Topics of a cluster."""

    names = _blocking(topics.Topics.names)
    route = _blocking(topics.Topics.route)
    cluster_of = _blocking(topics.Topics.cluster_of)
    clusters_of = _blocking(topics.Topics.clusters_of)
    create = _blocking(topics.Topics.create)
    update = _blocking(topics.Topics.update)
    update_order = _blocking(topics.Topics.update_order)
    add_to_order = _blocking(topics.Topics.add_to_order)
    stats = _blocking(topics.Topics.stats)
    configs = _blocking(topics.Topics.configs)
    config = _blocking(topics.Topics.config)
    user_configs = _blocking(topics.Topics.user_configs)
    user_table = _blocking(topics.Topics.user_table)
    delete = _blocking(topics.Topics.delete)
    delete_in_broker = _blocking(topics.Topics.delete_in_broker)
    delete_in_namesrv = _blocking(topics.Topics.delete_in_namesrv)
    consume_time_span = _blocking(topics.Topics.consume_time_span)
    consumed_by = _blocking(topics.Topics.consumed_by)
