"""NameServers: their configuration, key-values, and write permissions of brokers."""

from __future__ import annotations

from collections.abc import Mapping

from mqclient.admin.channel import Room
from mqcommon import java_properties
from mqcommon.wire.calls import namesrv_calls
from mqcommon.wire.calls.call import Call


class NameServers(Room):
    """NameServers. A change goes to all of them, because they do not tell each other.

    namespace, key: of the key-value configuration. broker_name: a broker. namesrv: "host:port" of
    the only NameServer to ask; None asks all. changes: RocketMQ's keys with their new values.
    Raises the first error after all were asked.
    """

    async def addresses(self) -> list[str]:
        """The NameServers' addresses, "host:port"; an address server is asked for them."""
        return list(await self._channel.namesrv_addresses())

    async def config(self) -> dict[str, dict[str, str]]:
        """The configuration of each NameServer, by address (`getNameServerConfig`)."""
        texts = await self._channel.ask_every_namesrv(namesrv_calls.config())
        return {address: java_properties.read(text) for address, text in texts.items()}

    async def update_config(self, changes: Mapping[str, str]) -> None:
        """Change keys of every running NameServer's configuration (`updateNameServerConfig`)."""
        call = namesrv_calls.update_config(java_properties.render(changes))
        await self._channel.ask_every_namesrv(call)

    async def kv(self, namespace: str, key: str) -> str | None:
        """A value of the key-value configuration (`getKVConfig`), None when there is none."""
        return await self._channel.ask_namesrv(namesrv_calls.get_kv_config(namespace, key))

    async def kv_list(self, namespace: str) -> dict[str, str]:
        """All values of a namespace (`getKVListByNamespace`); empty when there is none."""
        return await self._channel.ask_namesrv(namesrv_calls.kv_list(namespace))

    async def put_kv(self, namespace: str, key: str, value: str) -> None:
        """Set a value (`createAndUpdateKvConfig`)."""
        await self._channel.ask_every_namesrv(namesrv_calls.put_kv_config(namespace, key, value))

    async def delete_kv(self, namespace: str, key: str) -> None:
        """Delete a value (`deleteKvConfig`); it need not exist."""
        await self._channel.ask_every_namesrv(namesrv_calls.delete_kv(namespace, key))

    async def wipe_write_perm(self, broker_name: str, namesrv: str | None = None) -> dict[str, int]:
        """Have no producer send to a broker (`wipeWritePermOfBroker`).

        namesrv: the address of the only NameServer to change. Returns the number of topics that
        changed, by NameServer. The next change of the broker's topics undoes it.
        """
        return await self._change(namesrv_calls.wipe_write_perm(broker_name), namesrv)

    async def add_write_perm(self, broker_name: str, namesrv: str | None = None) -> dict[str, int]:
        """Undo `wipe_write_perm` (`addWritePermOfBroker`): takes and returns the same."""
        return await self._change(namesrv_calls.add_write_perm(broker_name), namesrv)

    async def _change(self, call: Call[int], namesrv: str | None) -> dict[str, int]:
        if namesrv is None:
            return await self._channel.ask_every_namesrv(call)
        return {namesrv: await self._channel.ask_broker(namesrv, call)}
