"""Topics: names, routes, configuration, extents."""

from __future__ import annotations

from collections.abc import Iterable

from mqclient.admin.brokers import Brokers
from mqclient.admin.channel import Channel, Room, reachable
from mqclient.admin.config_check import checked
from mqclient.engine.parallel import in_parallel
from mqclient.errors import RocketMQError
from mqcommon.names import AUTO_CREATE_TOPIC, is_of_a_group
from mqcommon.wire.bodies.route import ClusterInfo, TopicRouteData
from mqcommon.wire.bodies.topics import (
    QueueTimeSpan,
    TopicConfig,
    TopicConfigSerializeWrapper,
    TopicStatsTable,
)
from mqcommon.wire.calls import namesrv_calls, offset_calls, topic_calls
from mqcommon.wire.headers.admin import CreateTopicRequestHeader

CREATE_TRIES = 5
"""RocketMQ's: how often `create` asks a broker that fails."""


class Topics(Room):
    """Topics of a cluster.

    topic: its name. config: a TopicConfig, with the topic's name. broker_name, broker_names: the
    brokers whose queues are meant.
    """

    def __init__(self, channel: Channel, brokers: Brokers) -> None:
        super().__init__(channel)
        self._brokers = brokers

    async def names(self, cluster: str | None = None) -> list[str]:
        """All topics that the NameServer knows, or the topics of one cluster."""
        call = (
            namesrv_calls.topic_list()
            if cluster is None
            else namesrv_calls.topics_by_cluster(cluster)
        )
        return (await self._channel.ask_namesrv(call)).topic_list

    async def route(self, topic: str) -> TopicRouteData:
        """The route of a topic. Raises NoRouteError if the NameServer does not know the topic."""
        return await self._channel.route(topic)

    async def cluster_of(self, topic: str) -> str:
        """The first cluster that holds a topic; empty when none does."""
        return next(iter(await self.clusters_of(topic)), "")

    async def clusters_of(self, topic: str) -> list[str]:
        """Clusters that hold a topic, by the first broker of its route (`getTopicClusterList`)."""
        route = await self.route(topic)
        return clusters_in(await self._brokers.clusters(), route)

    async def create(
        self,
        topics: str | TopicConfig | Iterable[str | TopicConfig],
        queues: int = 8,
        *,
        cluster: str | None = None,
        key: str | None = None,
    ) -> None:
        """Create topics on every master of a cluster; existing topics get the new values.

        topics: a name, a TopicConfig, or several of them. queues: of topics given by name.
        cluster: its name; None is the only one. key: instead of a cluster, take the masters that
        have this topic, as RocketMQ's `MQAdminImpl.createTopic` does.
        Each broker is asked up to 5 times. When all topics were tried, raises the first error of a
        topic that no broker accepted, with a note of the others. ValueError and NotFoundError as
        `brokers.only_cluster` and `brokers.masters`, RocketMQError if there is no master now.
        """
        given = [topics] if isinstance(topics, (str, TopicConfig)) else [*topics]
        configs = [_config(topic, queues) for topic in given]
        masters = await self._masters(cluster, key)
        failures: dict[str, RocketMQError] = {}

        async def make(config: TopicConfig) -> None:
            failure = await self._create(config, masters)
            if failure is not None:
                failures[config.topic_name] = failure

        await in_parallel(make, configs)
        if failures:
            first = next(iter(failures.values()))
            first.add_note(f"not created: {', '.join(failures)}")
            raise first

    async def _masters(self, cluster: str | None, key: str | None) -> list[str]:
        """The masters that new topics go to."""
        if key is None:
            masters = await self._brokers.chosen(cluster, None)
        elif cluster is None:
            masters = [data.master for data in (await self.route(key)).broker_datas if data.master]
        else:
            raise ValueError("give either cluster or key: where should the topics be created?")
        if not masters:
            where = f"cluster {cluster!r}" if key is None else f"topic {key!r}"
            raise RocketMQError(f"{where} has no master now; try again later")
        return masters

    async def _create(self, config: TopicConfig, masters: list[str]) -> RocketMQError | None:
        """Create a topic on masters; the last error if none accepted it."""
        call = topic_calls.create_topic(_header(config))
        failure: RocketMQError | None = None
        accepted = 0
        for address in masters:
            for _ in range(CREATE_TRIES):
                try:
                    await self._channel.ask_broker(address, call)
                except RocketMQError as error:
                    failure = error
                else:
                    accepted += 1
                    break
        return None if accepted else failure

    async def update(
        self, config: TopicConfig, *, cluster: str | None = None, broker: str | None = None
    ) -> list[str]:
        """Create or change a topic on one broker, or on every master of a cluster.

        cluster: its name; None, without a broker, is the only one. broker: "host:port" of a master.
        Returns the addresses of the updated brokers, in the order of the updates.
        """
        call = topic_calls.create_topic(_header(checked(config, TopicConfig)))
        addresses = await self._brokers.chosen(cluster, broker)
        for address in addresses:
            await self._channel.ask_broker(address, call)
        return addresses

    async def update_order(self, config: TopicConfig, broker_names: list[str]) -> str:
        """Register the queues of an ordered topic with every NameServer; returns the value set."""
        checked(config, TopicConfig)
        queues = ";".join(f"{name}:{config.write_queue_nums}" for name in broker_names)
        namespace = topic_calls.ORDER_NAMESPACE
        call = namesrv_calls.put_kv_config(namespace, config.topic_name, queues)
        await self._channel.ask_every_namesrv(call)
        return queues

    async def add_to_order(self, config: TopicConfig, broker_name: str) -> str:
        """Register one broker's queues of an ordered topic; other brokers' queues are kept."""
        checked(config, TopicConfig)
        namespace, topic = topic_calls.ORDER_NAMESPACE, config.topic_name
        known = await self._channel.ask_namesrv(namesrv_calls.get_kv_config(namespace, topic))
        parts = dict(item.split(":", 1) for item in (known or "").split(";") if ":" in item)
        parts[broker_name] = str(config.write_queue_nums)
        queues = ";".join(f"{name}:{count}" for name, count in parts.items())
        await self._channel.ask_every_namesrv(namesrv_calls.put_kv_config(namespace, topic, queues))
        return f"{broker_name}:{config.write_queue_nums}"

    async def stats(self, topic: str, broker: str | None = None) -> TopicStatsTable:
        """Extent of every queue of a topic, from all its brokers.

        broker: "host:port" of the only broker to ask.
        """
        merged = TopicStatsTable()
        addresses = await self._channel.addresses(topic) if broker is None else [broker]
        for address in addresses:
            table = await self._channel.ask_broker(address, topic_calls.topic_stats(topic))
            merged.offset_table.update(table.offset_table)
        return merged

    async def configs(self, broker: str) -> dict[str, TopicConfig]:
        """Every topic of one broker. broker: "host:port"."""
        table = await self._channel.ask_broker(broker, topic_calls.all_topic_config())
        return table.topic_config_table

    async def config(self, broker: str, topic: str) -> TopicConfig | None:
        """One topic of one broker (`examineTopicConfig`), None when the broker lacks it."""
        return (await self.configs(broker)).get(topic)

    async def user_configs(
        self, broker: str, *, special_topics: bool = False
    ) -> dict[str, TopicConfig]:
        """Topics of one broker that it did not make for itself (`getUserTopicConfig`).

        special_topics: include retry and dead-letter topics.
        """
        table = await self.user_table(broker, special_topics=special_topics)
        return table.topic_config_table

    async def user_table(
        self, broker: str, *, special_topics: bool = False
    ) -> TopicConfigSerializeWrapper:
        """As `user_configs`, with the version of the broker's table."""
        system = await self._channel.ask_broker(broker, topic_calls.system_topics())
        table = await self._channel.ask_broker(broker, topic_calls.all_topic_config())
        table.topic_config_table = {
            name: config
            for name, config in table.topic_config_table.items()
            if name not in system and (special_topics or not is_of_a_group(name))
        }
        return table

    async def delete(self, topic: str, cluster: str | None = None) -> list[str]:
        """Delete a topic on every master of a cluster, then in every NameServer.

        cluster: its name; None is the only one.
        Returns the brokers' addresses. Messages of the topic cannot be read any more.
        """
        cluster = cluster or await self._brokers.only_cluster()
        addresses = await self._brokers.masters(cluster)
        for address in addresses:
            await self.delete_in_broker(address, topic)
        await self.delete_in_namesrv(topic, cluster)
        return addresses

    async def delete_in_broker(self, broker: str, topic: str) -> None:
        """Delete a topic on one broker (`deleteTopicInBroker`). broker: "host:port"."""
        await self._channel.ask_broker(broker, topic_calls.delete_topic(topic))

    async def delete_in_namesrv(self, topic: str, cluster: str | None = None) -> None:
        """Have every NameServer forget a topic (`deleteTopicInNameServer`).

        cluster: only there; None is all clusters.
        """
        await self._channel.ask_every_namesrv(namesrv_calls.delete_topic(topic, cluster))

    async def consume_time_span(self, topic: str, group: str) -> list[QueueTimeSpan]:
        """Store times of each queue's messages, and a group's position (`queryConsumeTimeSpan`)."""
        call = offset_calls.consume_time_span(topic, group)
        addresses = await self._channel.addresses(topic)
        return [span for a in addresses for span in await self._channel.ask_broker(a, call)]

    async def consumed_by(self, topic: str, route: TopicRouteData | None = None) -> list[str]:
        """Groups that have an offset in a topic, from the first broker of its route.

        route: the topic's route, if it is known already.
        """
        route = await self.route(topic) if route is None else route
        address = next(filter(None, map(reachable, route.broker_datas)), None)
        if address is None:
            return []
        return await self._channel.ask_broker(address, topic_calls.consumed_by(topic))


def clusters_in(known: ClusterInfo, route: TopicRouteData) -> list[str]:
    """The clusters among the known ones that have the first broker of a route."""
    first = route.broker_datas[0].broker_name
    return sorted(name for name, brokers in known.cluster_addr_table.items() if first in brokers)


def _config(topic: str | TopicConfig, queues: int) -> TopicConfig:
    if isinstance(topic, TopicConfig):
        return checked(topic, TopicConfig)
    if not isinstance(topic, str):
        raise TypeError(f"a topic is a name or a TopicConfig, not {type(topic).__name__}")
    made = TopicConfig(topic, read_queue_nums=queues, write_queue_nums=queues)
    return checked(made, TopicConfig)


def _header(config: TopicConfig) -> CreateTopicRequestHeader:
    return CreateTopicRequestHeader(
        topic=config.topic_name,
        default_topic=AUTO_CREATE_TOPIC,
        read_queue_nums=config.read_queue_nums,
        write_queue_nums=config.write_queue_nums,
        perm=config.perm,
        topic_filter_type=config.topic_filter_type,
        topic_sys_flag=config.topic_sys_flag,
        order=config.order,
    )
