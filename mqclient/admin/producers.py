"""Producers that brokers know."""

from __future__ import annotations

from mqclient.admin.channel import Room
from mqcommon.wire.bodies.groups import ProducerConnection, ProducerInfo
from mqcommon.wire.calls import group_calls


class Producers(Room):
    """Producer groups and their members."""

    async def connection(self, group: str, topic: str) -> ProducerConnection:
        """Members of a producer group (`examineProducerConnectionInfo`).

        topic: a topic whose brokers are asked, in turn. Raises BrokerError when none knows the
        group.
        """
        return await self._channel.ask_any(topic, group_calls.producer_connection(group))

    async def all(self, broker: str) -> dict[str, list[ProducerInfo]]:
        """Every producer that one broker knows, by group (`getAllProducerInfo`)."""
        return (await self._channel.ask_broker(broker, group_calls.all_producers())).data
