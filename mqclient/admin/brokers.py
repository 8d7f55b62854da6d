"""Clusters and brokers."""

from __future__ import annotations

from collections.abc import Mapping

from mqclient.admin.channel import Room
from mqclient.errors import NotFoundError
from mqclient.settings.checks import answer_timeout
from mqcommon import java_properties
from mqcommon.message import MessageQueue
from mqcommon.wire.bodies.groups import BrokerStatsData, ConsumeStatsList
from mqcommon.wire.bodies.route import MASTER_ID, ClusterInfo
from mqcommon.wire.bodies.running import QueryConsumeQueueResponseBody
from mqcommon.wire.calls import broker_calls, message_calls, namesrv_calls
from mqcommon.wire.codes import RequestCode


class Brokers(Room):
    """Clusters, brokers, their runtime figures and configuration.

    address, broker: "host:port" of one broker. cluster: its name; None, without a broker, is the
    only one. changes: RocketMQ's keys with their new values.
    """

    async def clusters(self, namesrv: str | None = None) -> ClusterInfo:
        """Every cluster, broker name and address that the NameServer knows.

        namesrv: "host:port" of the only NameServer to ask; None asks any.
        """
        call = namesrv_calls.cluster_info()
        if namesrv is not None:
            return await self._channel.ask_broker(namesrv, call)
        return await self._channel.ask_namesrv(call)

    async def masters(self, cluster: str) -> list[str]:
        """Addresses of a cluster's masters.

        Raises RocketMQError if the cluster does not exist; the error lists the known clusters.
        """
        known = await self.clusters()
        names = self._names(known, cluster)
        datas = (known.broker_addr_table.get(name) for name in names)
        return [data.broker_addrs[MASTER_ID] for data in datas if data and data.master]

    async def addresses(self, cluster: str | None = None) -> list[str]:
        """Addresses of a cluster's brokers, each master before its slaves; None: of all clusters.

        Raises RocketMQError as `masters` does.
        """
        known = await self.clusters()
        table = known.broker_addr_table
        names = sorted(table) if cluster is None else self._names(known, cluster)
        found = (table[name].broker_addrs for name in names if name in table)
        return [addresses[key] for addresses in found for key in sorted(addresses)]

    async def only_cluster(self) -> str:
        """The name of the cluster, if there is one only.

        Raises ValueError naming the clusters if there are several, NotFoundError without any.
        """
        names = sorted((await self.clusters()).cluster_addr_table)
        if not names:
            raise NotFoundError(
                f"no broker is registered at NameServer {self._channel.namesrv}; start one: "
                f"mqserver broker start -n {self._channel.namesrv}"
            )
        if len(names) > 1:
            raise ValueError(f"there are several clusters, give cluster= one of {', '.join(names)}")
        return names[0]

    async def chosen(self, cluster: str | None, broker: str | None) -> list[str]:
        """The brokers that a change goes to: one, or every master of a cluster.

        cluster: its name; None, without a broker, is the only one. broker: "host:port".
        Raises ValueError for both, and as `only_cluster` does.
        """
        if broker is None:
            return await self.masters(cluster or await self.only_cluster())
        if cluster is not None:
            raise ValueError("give either cluster or broker: where should the change be made?")
        return [broker]

    async def names(self, cluster: str) -> list[str]:
        """Broker names of a cluster; raises NotFoundError when it does not exist."""
        return self._names(await self.clusters(), cluster)

    async def name_of(self, address: str) -> str:
        """Name of the broker whose master or slave has this address."""
        known = await self.clusters()
        for name, data in known.broker_addr_table.items():
            if address in data.broker_addrs.values():
                return name
        raise NotFoundError(
            f"no broker at {address} is registered at NameServer {self._channel.namesrv}; "
            f"list them: mqadmin clusterList -n {self._channel.namesrv}"
        )

    async def runtime(self, address: str) -> dict[str, str]:
        """A broker's runtime figures by RocketMQ's names."""
        return await self._channel.ask_broker(address, broker_calls.broker_runtime())

    async def stats(self, address: str, name: str, key: str) -> BrokerStatsData:
        """One statistic over a minute, an hour and a day.

        name: RocketMQ's, like TOPIC_PUT_NUMS. key: its subject, like "Topic" or "Topic@Group".
        Raises BrokerError when the broker has counted nothing of that name.
        """
        return await self._channel.ask_broker(address, broker_calls.broker_stats(name, key))

    async def consume_stats(
        self, address: str, *, ordered: bool = False, timeout: float | None = None
    ) -> ConsumeStatsList:
        """Progress of all groups of one broker. ordered: only groups that consume in order.

        timeout: seconds; None means the timeout of slow requests.
        """
        call = broker_calls.broker_consume_stats(ordered=ordered)
        if timeout is None:
            return await self._channel.ask_broker(address, call, slow=True)
        reply = await self._channel.engine.call_broker(
            address, call.request, answer_timeout(timeout)
        )
        return call.result(reply, address)

    async def config(self, address: str) -> dict[str, str]:
        """A broker's configuration by RocketMQ's keys."""
        text = await self._channel.ask_broker(address, broker_calls.broker_config())
        return java_properties.read(text)

    async def update_config(self, address: str, changes: Mapping[str, str]) -> None:
        """Change keys of a running broker's configuration."""
        call = broker_calls.update_broker_config(java_properties.render(changes))
        await self._channel.ask_broker(address, call)

    async def consume_queue(
        self,
        address: str,
        queue: MessageQueue,
        index: int,
        count: int = 10,
        *,
        group: str | None = None,
    ) -> QueryConsumeQueueResponseBody:
        """Entries of a consume queue from offset `index` on, at most `count` (`queryConsumeQueue`).

        group: show its subscription too. Raises BrokerError when the queue does not exist.
        """
        call = message_calls.consume_queue(queue, index, count, group)
        return await self._channel.ask_broker(address, call)

    async def clean_expired_queues(
        self, *, cluster: str | None = None, broker: str | None = None
    ) -> list[str]:
        """Remove queue files whose messages are deleted (`cleanExpiredConsumerQueue`).

        cluster, broker: a cluster's masters and slaves, or one "host:port"; neither is all
        clusters. Returns the brokers' addresses, as the next two methods do.
        """
        return await self._clean(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE, cluster, broker)

    async def delete_expired_logs(
        self, *, cluster: str | None = None, broker: str | None = None
    ) -> list[str]:
        """Delete expired files of the commit log, whatever the hour (`deleteExpiredCommitLog`)."""
        return await self._clean(RequestCode.DELETE_EXPIRED_COMMITLOG, cluster, broker)

    async def clean_unused_topics(
        self, *, cluster: str | None = None, broker: str | None = None
    ) -> list[str]:
        """Remove the queues of topics that do not exist any more (`cleanUnusedTopic`)."""
        return await self._clean(RequestCode.CLEAN_UNUSED_TOPIC, cluster, broker)

    async def _clean(self, code: RequestCode, cluster: str | None, broker: str | None) -> list[str]:
        if cluster is not None and broker is not None:
            raise ValueError("give at most one of cluster and broker")
        addresses = [broker] if broker is not None else await self.addresses(cluster)
        for address in addresses:
            await self._channel.ask_broker(address, broker_calls.clean(code), slow=True)
        return addresses

    def _names(self, known: ClusterInfo, cluster: str) -> list[str]:
        if cluster not in known.cluster_addr_table:
            there = ", ".join(sorted(known.cluster_addr_table)) or "none"
            raise NotFoundError(
                f"cluster {cluster!r} does not exist at NameServer {self._channel.namesrv}; "
                f"clusters: {there}"
            )
        return known.cluster_addr_table[cluster]
