"""Topics: names, routes, configuration, extents."""

from __future__ import annotations

from mqclient.admin import calls as admin_calls
from mqclient.admin.brokers import Brokers
from mqclient.admin.channel import Channel, Room
from mqclient.wire import calls
from mqclient.wire.bodies.route import TopicRouteData
from mqclient.wire.bodies.topics import TopicConfig, TopicStatsTable
from mqclient.wire.headers.admin import CreateTopicRequestHeader
from mqstore.names import AUTO_CREATE_TOPIC


class Topics(Room):
    """Topics of a cluster."""

    def __init__(self, channel: Channel, brokers: Brokers) -> None:
        super().__init__(channel)
        self._brokers = brokers

    async def names(self, cluster: str | None = None) -> list[str]:
        """All topics that the NameServer knows, or those of one cluster."""
        call = calls.topic_list() if cluster is None else calls.topics_by_cluster(cluster)
        return (await self._channel.ask_namesrv(call)).topic_list

    async def route(self, topic: str) -> TopicRouteData:
        """Where a topic lives. Raises NoRouteError when the NameServer does not know it."""
        return await self._channel.route(topic)

    async def cluster_of(self, topic: str) -> str:
        """The cluster that holds a topic, by the first broker of its route."""
        first = (await self.route(topic)).broker_datas[0].broker_name
        clusters = (await self._brokers.clusters()).cluster_addr_table
        return next((name for name, brokers in clusters.items() if first in brokers), "")

    async def update(
        self, config: TopicConfig, *, cluster: str | None = None, broker: str | None = None
    ) -> list[str]:
        """Create or change a topic on one broker, or on every master of a cluster.

        cluster: its name. broker: "host:port" of a master. Give exactly one.
        Returns the addresses that have it now, in the order they were told.
        """
        if (cluster is None) == (broker is None):
            raise ValueError("give either cluster or broker: where should the topic live?")
        addresses = [broker] if broker else await self._brokers.masters(str(cluster))
        call = calls.create_topic(_header(config))
        for address in addresses:
            await self._channel.ask_broker(address, call)
        return addresses

    async def update_order(self, config: TopicConfig, broker_names: list[str]) -> str:
        """Register the queues of an ordered topic with the NameServer; returns what was set."""
        queues = ";".join(f"{name}:{config.write_queue_nums}" for name in broker_names)
        namespace = admin_calls.ORDER_NAMESPACE
        await self._channel.ask_namesrv(calls.put_kv_config(namespace, config.topic_name, queues))
        return queues

    async def add_to_order(self, config: TopicConfig, broker_name: str) -> str:
        """Register one broker's queues of an ordered topic, keeping those of other brokers."""
        namespace, topic = admin_calls.ORDER_NAMESPACE, config.topic_name
        known = await self._channel.ask_namesrv(calls.get_kv_config(namespace, topic))
        parts = dict(item.split(":", 1) for item in (known or "").split(";") if ":" in item)
        parts[broker_name] = str(config.write_queue_nums)
        queues = ";".join(f"{name}:{count}" for name, count in parts.items())
        await self._channel.ask_namesrv(calls.put_kv_config(namespace, topic, queues))
        return f"{broker_name}:{config.write_queue_nums}"

    async def stats(self, topic: str) -> TopicStatsTable:
        """Extent of every queue of a topic, from all its brokers."""
        merged = TopicStatsTable()
        for address in await self._channel.addresses(topic):
            table = await self._channel.ask_broker(address, calls.topic_stats(topic))
            merged.offset_table.update(table.offset_table)
        return merged

    async def configs(self, broker: str) -> dict[str, TopicConfig]:
        """Every topic of one broker. broker: "host:port"."""
        table = await self._channel.ask_broker(broker, calls.all_topic_config())
        return table.topic_config_table

    async def consumed_by(self, topic: str) -> list[str]:
        """Groups that have an offset in a topic, from the first broker of its route."""
        addresses = await self._channel.addresses(topic)
        if not addresses:
            return []
        return await self._channel.ask_broker(addresses[0], admin_calls.consumed_by(topic))


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
