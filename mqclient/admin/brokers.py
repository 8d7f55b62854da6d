"""Clusters and brokers."""

from __future__ import annotations

from collections.abc import Mapping

from mqclient.admin import calls as admin_calls
from mqclient.admin.channel import Room
from mqclient.config import Duration, seconds
from mqclient.errors import RocketMQError
from mqclient.wire import calls
from mqclient.wire.bodies.groups import BrokerStatsData, ConsumeStatsList
from mqclient.wire.bodies.route import MASTER_ID, ClusterInfo
from mqstore import java_properties


class Brokers(Room):
    """Clusters, brokers, their runtime figures and configuration."""

    async def clusters(self) -> ClusterInfo:
        """Every cluster, broker name and address that the NameServer knows."""
        return await self._channel.ask_namesrv(calls.cluster_info())

    async def masters(self, cluster: str) -> list[str]:
        """Addresses of a cluster's masters.

        Raises RocketMQError when the cluster does not exist, naming those that do.
        """
        known = await self.clusters()
        names = self._names(known, cluster)
        datas = (known.broker_addr_table.get(name) for name in names)
        return [data.broker_addrs[MASTER_ID] for data in datas if data and data.master]

    async def names(self, cluster: str) -> list[str]:
        """Broker names of a cluster; raises RocketMQError when it does not exist."""
        return self._names(await self.clusters(), cluster)

    async def name_of(self, address: str) -> str:
        """Name of the broker whose master or slave has this address."""
        known = await self.clusters()
        for name, data in known.broker_addr_table.items():
            if address in data.broker_addrs.values():
                return name
        raise RocketMQError(
            f"no broker at {address} is registered at NameServer {self._channel.namesrv}; "
            f"list them: mqadmin clusterList -n {self._channel.namesrv}"
        )

    async def runtime(self, address: str) -> dict[str, str]:
        """A broker's runtime figures by RocketMQ's names."""
        return await self._channel.ask_broker(address, calls.broker_runtime())

    async def stats(self, address: str, name: str, key: str) -> BrokerStatsData:
        """One statistic over a minute, an hour and a day.

        name: RocketMQ's, like TOPIC_PUT_NUMS. key: its subject, like "Topic" or "Topic@Group".
        Raises BrokerError when the broker has counted nothing of that name.
        """
        return await self._channel.ask_broker(address, admin_calls.broker_stats(name, key))

    async def consume_stats(
        self, address: str, *, ordered: bool = False, timeout: Duration | None = None
    ) -> ConsumeStatsList:
        """Progress of all groups of one broker. ordered: only groups that consume in order.

        timeout: seconds or timedelta; None means the timeout of slow requests.
        """
        call = admin_calls.broker_consume_stats(ordered=ordered)
        if timeout is None:
            return await self._channel.ask_broker(address, call, slow=True)
        reply = await self._channel.engine.call_broker(address, call.request, seconds(timeout))
        return call.result(reply, address)

    async def config(self, address: str) -> dict[str, str]:
        """A broker's configuration by RocketMQ's keys."""
        text = await self._channel.ask_broker(address, admin_calls.broker_config())
        return java_properties.read(text)

    async def update_config(self, address: str, changes: Mapping[str, str]) -> None:
        """Change keys of a running broker's configuration."""
        call = admin_calls.update_broker_config(java_properties.render(changes))
        await self._channel.ask_broker(address, call)

    def _names(self, known: ClusterInfo, cluster: str) -> list[str]:
        if cluster not in known.cluster_addr_table:
            there = ", ".join(sorted(known.cluster_addr_table)) or "none"
            raise RocketMQError(
                f"cluster {cluster!r} does not exist at NameServer {self._channel.namesrv}; "
                f"clusters: {there}"
            )
        return known.cluster_addr_table[cluster]
