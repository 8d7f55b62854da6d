"""Access control of brokers: accounts, white lists, versions."""

from __future__ import annotations

from mqclient.admin.channel import R, Room
from mqclient.errors import ClientTimeout
from mqcommon.wire.bodies.acl import AclConfig, PlainAccessConfig
from mqcommon.wire.calls import access_calls
from mqcommon.wire.calls.call import Call
from mqcommon.wire.headers.admin import GetBrokerAclConfigResponseHeader


class Access(Room):
    """Accounts and white lists of one broker. All raise BrokerError if the broker refuses.

    address: the broker's "host:port". access_key: name of an account. addresses: a comma list of
    white addresses.
    """

    async def put_account(self, address: str, account: PlainAccessConfig) -> None:
        """Create an account, or change the given fields; `admin` and the keys always count."""
        await self._channel.ask_broker(address, access_calls.put_account(account))

    async def delete_account(self, address: str, access_key: str) -> None:
        """Delete an account."""
        await self._channel.ask_broker(address, access_calls.delete_account(access_key))

    async def set_white(self, address: str, addresses: str, file: str | None = None) -> None:
        """Replace the global white list (a comma list) of an access file; None is the main file."""
        await self._channel.ask_broker(address, access_calls.set_white(addresses, file))

    async def versions(self, address: str) -> GetBrokerAclConfigResponseHeader:
        """Versions of the access files. No answer (ClientTimeout) means access control is off."""
        return await self._ask(address, access_calls.acl_versions())

    async def config(self, address: str) -> AclConfig:
        """All accounts; this project's brokers mask the secrets."""
        return await self._ask(address, access_calls.acl_config())

    async def _ask(self, address: str, call: Call[R]) -> R:
        try:
            return await self._channel.ask_broker(address, call)
        except ClientTimeout as error:
            raise ClientTimeout(
                f"{error}; RocketMQ's brokers do not answer questions about accounts while access "
                "control is off (aclEnable)"
            ) from error
