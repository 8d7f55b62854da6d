"""The groups of methods of the blocking Admin: each runs the asyncio method to its end.

`make pages` writes this file from `mqclient/admin/`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
from mqclient.blocking.derive import BlockingFace, sync
from mqclient.blocking.loop_thread import LoopThread


class BlockingRoom(BlockingFace):
    """A group of methods: the asyncio one, and where to run its coroutines."""

    def __init__(self, client: Any, thread: Callable[[], LoopThread]) -> None:
        self._async = client
        self._thread = thread

    def _where(self) -> LoopThread:
        return self._thread()


class Access(BlockingRoom):
    """Accounts and white lists of one broker. All raise BrokerError if the broker refuses.

    address: the broker's "host:port". access_key: name of an account. addresses: a comma list of
    white addresses.
    """

    put_account = sync(access.Access.put_account)
    delete_account = sync(access.Access.delete_account)
    set_white = sync(access.Access.set_white)
    versions = sync(access.Access.versions)
    config = sync(access.Access.config)


class Brokers(BlockingRoom):
    """Clusters, brokers, their runtime figures and configuration.

    address, broker: "host:port" of one broker. cluster: its name; None, without a broker, is the
    only one. changes: RocketMQ's keys with their new values.
    """

    clusters = sync(brokers.Brokers.clusters)
    masters = sync(brokers.Brokers.masters)
    addresses = sync(brokers.Brokers.addresses)
    only_cluster = sync(brokers.Brokers.only_cluster)
    chosen = sync(brokers.Brokers.chosen)
    names = sync(brokers.Brokers.names)
    name_of = sync(brokers.Brokers.name_of)
    runtime = sync(brokers.Brokers.runtime)
    stats = sync(brokers.Brokers.stats)
    consume_stats = sync(brokers.Brokers.consume_stats)
    config = sync(brokers.Brokers.config)
    update_config = sync(brokers.Brokers.update_config)
    consume_queue = sync(brokers.Brokers.consume_queue)
    clean_expired_queues = sync(brokers.Brokers.clean_expired_queues)
    delete_expired_logs = sync(brokers.Brokers.delete_expired_logs)
    clean_unused_topics = sync(brokers.Brokers.clean_unused_topics)


class DeadLetters(BlockingRoom):
    """Messages that groups could not consume. All raise NoRouteError for a group without any."""

    topics = sync(dead_letters.DeadLetters.topics)
    topic = sync(dead_letters.DeadLetters.topic)
    read = sync(dead_letters.DeadLetters.read)
    redrive = sync(dead_letters.DeadLetters.redrive)
    redrive_some = sync(dead_letters.DeadLetters.redrive_some)
    purge = sync(dead_letters.DeadLetters.purge)


class Groups(BlockingRoom):
    """Consumer groups of a cluster.

    group: its name. config: a GroupConfig, with the group's name. client_id: one member.
    """

    names = sync(groups.Groups.names)
    update = sync(groups.Groups.update)
    configs = sync(groups.Groups.configs)
    config = sync(groups.Groups.config)
    on_all_brokers = sync(groups.Groups.on_all_brokers)
    user_configs = sync(groups.Groups.user_configs)
    user_table = sync(groups.Groups.user_table)
    delete = sync(groups.Groups.delete)
    connection = sync(groups.Groups.connection)
    running_info = sync(groups.Groups.running_info)


class Lags(BlockingRoom):
    """How far groups are behind. A lag is never negative, and deleted messages do not count."""

    of = sync(lag.Lags.of)


class Messages(BlockingRoom):
    """Messages by id, and their fate.

    topic, group: names. unique_key: the msg_id of a SendResult. client_id: a member of the group.
    """

    view = sync(messages.Messages.view)
    query = sync(messages.Messages.query)
    copies = sync(messages.Messages.copies)
    trace = sync(messages.Messages.trace)
    read = sync(messages.Messages.read)
    find = sync(messages.Messages.find)
    resume_check = sync(messages.Messages.resume_check)
    consume_directly = sync(messages.Messages.consume_directly)
    track = sync(messages.Messages.track)


class NameServers(BlockingRoom):
    """NameServers. A change goes to all of them, because they do not tell each other.

    namespace, key: of the key-value configuration. broker_name: a broker. namesrv: "host:port" of
    the only NameServer to ask; None asks all. changes: RocketMQ's keys with their new values.
    Raises the first error after all were asked.
    """

    addresses = sync(namesrv.NameServers.addresses)
    config = sync(namesrv.NameServers.config)
    update_config = sync(namesrv.NameServers.update_config)
    kv = sync(namesrv.NameServers.kv)
    kv_list = sync(namesrv.NameServers.kv_list)
    put_kv = sync(namesrv.NameServers.put_kv)
    delete_kv = sync(namesrv.NameServers.delete_kv)
    wipe_write_perm = sync(namesrv.NameServers.wipe_write_perm)
    add_write_perm = sync(namesrv.NameServers.add_write_perm)


class Offsets(BlockingRoom):
    """Offsets of queues and groups. topic, group: names. when: an aware datetime."""

    progress = sync(offsets.Offsets.progress)
    unreadable = sync(offsets.Offsets.unreadable)
    minimum = sync(offsets.Offsets.minimum)
    maximum = sync(offsets.Offsets.maximum)
    at_time = sync(offsets.Offsets.at_time)
    earliest_time = sync(offsets.Offsets.earliest_time)
    of_group = sync(offsets.Offsets.of_group)
    of_members = sync(offsets.Offsets.of_members)
    committed = sync(offsets.Offsets.committed)
    commit = sync(offsets.Offsets.commit)


class Plans(BlockingRoom):
    """Plans of changes of groups' offsets. A plan changes nothing until it is given to `apply`.

    source, target: the groups to copy offsets from and to. queues: only these queues of the topic;
    None is all queues that consumers read.
    All raise NoRouteError for an unknown topic, and RocketMQError if a queue has no master.
    """

    reset = sync(plans.Plans.reset)
    copy = sync(plans.Plans.copy)
    put = sync(plans.Plans.put)
    apply = sync(plans.Plans.apply)


class Producers(BlockingRoom):
    """Producer groups and their members."""

    connection = sync(producers.Producers.connection)
    all = sync(producers.Producers.all)


class Resets(BlockingRoom):
    """Moves groups to another time.

    topic, group: names. source, target: the groups to copy offsets from and to.
    to: an aware datetime, or "earliest" or "latest" for the start or the end of each queue.
    force: move forward too; without it no offset becomes higher.
    """

    reset = sync(resets.Resets.reset)
    online = sync(resets.Resets.online)
    offline = sync(resets.Resets.offline)
    clone = sync(resets.Resets.clone)
    copy = sync(resets.Resets.copy)


class Topics(BlockingRoom):
    """Topics of a cluster.

    topic: its name. config: a TopicConfig, with the topic's name. broker_name, broker_names: the
    brokers whose queues are meant.
    """

    names = sync(topics.Topics.names)
    route = sync(topics.Topics.route)
    cluster_of = sync(topics.Topics.cluster_of)
    clusters_of = sync(topics.Topics.clusters_of)
    create = sync(topics.Topics.create)
    update = sync(topics.Topics.update)
    update_order = sync(topics.Topics.update_order)
    add_to_order = sync(topics.Topics.add_to_order)
    stats = sync(topics.Topics.stats)
    configs = sync(topics.Topics.configs)
    config = sync(topics.Topics.config)
    user_configs = sync(topics.Topics.user_configs)
    user_table = sync(topics.Topics.user_table)
    delete = sync(topics.Topics.delete)
    delete_in_broker = sync(topics.Topics.delete_in_broker)
    delete_in_namesrv = sync(topics.Topics.delete_in_namesrv)
    consume_time_span = sync(topics.Topics.consume_time_span)
    consumed_by = sync(topics.Topics.consumed_by)
