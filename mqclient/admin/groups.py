"""Consumer groups: configuration, members, and their running state."""

from __future__ import annotations

from dataclasses import dataclass

from mqclient.admin.brokers import Brokers
from mqclient.admin.channel import Channel, Room, reachable
from mqclient.admin.config_check import checked
from mqclient.errors import NotFoundError
from mqcommon.names import is_system_group, retry_groups
from mqcommon.wire.bodies.groups import (
    ConsumerConnection,
    GroupConfig,
    SubscriptionGroupWrapper,
)
from mqcommon.wire.bodies.running import ConsumerRunningInfo
from mqcommon.wire.calls import group_calls, namesrv_calls


@dataclass(frozen=True, slots=True)
class GroupOnBroker:
    """The configuration of a group on one broker."""

    cluster: str
    broker_name: str
    config: GroupConfig


class Groups(Room):
    """Consumer groups of a cluster.

    group: its name. config: a GroupConfig, with the group's name. client_id: one member.
    """

    def __init__(self, channel: Channel, brokers: Brokers) -> None:
        super().__init__(channel)
        self._brokers = brokers

    async def names(self) -> list[str]:
        """Groups that have a retry topic: every group that was ever online."""
        topics = (await self._channel.ask_namesrv(namesrv_calls.topic_list())).topic_list
        return retry_groups(topics)

    async def update(
        self,
        config: GroupConfig,
        *,
        cluster: str | None = None,
        broker: str | None = None,
    ) -> list[str]:
        """Create or change a group on one broker, or on every master of a cluster.

        cluster: its name; None, without a broker, is the only one. broker: "host:port" of a master.
        Returns the addresses that have it now.
        """
        call = group_calls.create_subscription_group(checked(config, GroupConfig))
        addresses = await self._brokers.chosen(cluster, broker)
        for address in addresses:
            await self._channel.ask_broker(address, call)
        return addresses

    async def configs(self, broker: str) -> dict[str, GroupConfig]:
        """Every group of one broker. broker: "host:port"."""
        table = await self._channel.ask_broker(broker, group_calls.all_subscription_groups())
        return table.subscription_group_table

    async def config(self, broker: str, group: str) -> GroupConfig | None:
        """One group of one broker (`examineSubscriptionGroupConfig`), None when it is unknown."""
        return (await self.configs(broker)).get(group)

    async def on_all_brokers(self, group: str) -> list[GroupOnBroker]:
        """The configuration of a group on every broker that has it, by broker name.

        Raises NotFoundError if no broker has it.
        """
        known = await self._brokers.clusters()
        clusters = {name: c for c, names in known.cluster_addr_table.items() for name in names}
        found = []
        for name, data in sorted(known.broker_addr_table.items()):
            address = reachable(data)
            config = await self.config(address, group) if address else None
            if config is not None:
                found.append(GroupOnBroker(clusters.get(name, ""), name, config))
        if not found:
            raise NotFoundError(
                f"no broker has a configuration of group {group!r}; create it: "
                f"mqadmin updateSubGroup -n {self._channel.namesrv} -c CLUSTER -g {group}"
            )
        return found

    async def user_configs(self, broker: str) -> dict[str, GroupConfig]:
        """Groups of one broker that are not RocketMQ's own (`getUserSubscriptionGroup`)."""
        return (await self.user_table(broker)).subscription_group_table

    async def user_table(self, broker: str) -> SubscriptionGroupWrapper:
        """As `user_configs`, with the version of the broker's table."""
        table = await self._channel.ask_broker(broker, group_calls.all_subscription_groups())
        table.subscription_group_table = {
            name: config
            for name, config in table.subscription_group_table.items()
            if not is_system_group(name)
        }
        return table

    async def delete(
        self,
        group: str,
        *,
        cluster: str | None = None,
        broker: str | None = None,
        remove_offset: bool = False,
    ) -> list[str]:
        """Delete a group on one broker, or on every master of a cluster.

        cluster, broker: as for `update`. remove_offset: delete its committed offsets too. Returns
        the brokers' addresses. Its retry and dead-letter topics stay: see `topics.delete`.
        """
        addresses = await self._brokers.chosen(cluster, broker)
        call = group_calls.delete_group(group, remove_offset=remove_offset)
        for address in addresses:
            await self._channel.ask_broker(address, call)
        return addresses

    async def connection(self, group: str, broker: str | None = None) -> ConsumerConnection:
        """Members and subscriptions of a group.

        broker: "host:port" of the broker to ask; None asks the brokers of the group in turn.
        Raises NoRouteError if the group never existed, BrokerError 206 or NotFoundError if no
        member is online.
        """
        call = group_calls.consumer_connection(group)
        if broker is None:
            found = await self._channel.ask_any_of_group(group, call)
        else:
            found = await self._channel.ask_broker(broker, call)
        if not found.connection_set:
            raise NotFoundError(f"group {group!r} has no member online; start a consumer of it")
        return found

    async def running_info(
        self, group: str, client_id: str, *, stacks: bool = False
    ) -> ConsumerRunningInfo:
        """The running state of one member. stacks: include a dump of its threads.

        Raises NoRouteError if the group never existed, BrokerError 206 if no member has this id.
        """
        call = group_calls.running_info(group, client_id, stacks=stacks)
        return await self._channel.ask_any_of_group(group, call, slow=True)
