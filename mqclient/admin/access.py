"""Access control of brokers: accounts, white lists, versions."""

from __future__ import annotations

from mqclient.admin.channel import Room
from mqclient.wire.bodies.acl import AclConfig, PlainAccessConfig
from mqclient.wire.calls import Call
from mqclient.wire.codes import RequestCode
from mqclient.wire.frame import Frame
from mqclient.wire.headers.admin import (
    CreateAccessConfigRequestHeader,
    DeleteAccessConfigRequestHeader,
    GetBrokerAclConfigResponseHeader,
    UpdateGlobalWhiteAddrsConfigRequestHeader,
)


class Access(Room):
    """Accounts and white lists of one broker. All raise BrokerError when it refuses."""

    async def put_account(self, address: str, account: PlainAccessConfig) -> None:
        """Create an account, or change what is given of one; `admin` and the keys always count."""
        topics, groups = account.topic_perms, account.group_perms
        header = CreateAccessConfigRequestHeader(
            access_key=account.access_key,
            secret_key=account.secret_key,
            white_remote_address=account.white_remote_address,
            admin=account.admin,
            default_topic_perm=account.default_topic_perm,
            default_group_perm=account.default_group_perm,
            topic_perms=None if topics is None else ",".join(topics),
            group_perms=None if groups is None else ",".join(groups),
        )
        request = Frame(int(RequestCode.UPDATE_AND_CREATE_ACL_CONFIG), header.to_fields())
        await self._channel.ask_broker(address, Call(request, lambda _reply: None))

    async def delete_account(self, address: str, access_key: str) -> None:
        """Delete an account."""
        header = DeleteAccessConfigRequestHeader(access_key=access_key)
        request = Frame(int(RequestCode.DELETE_ACL_CONFIG), header.to_fields())
        await self._channel.ask_broker(address, Call(request, lambda _reply: None))

    async def set_white(self, address: str, addresses: str, file: str | None = None) -> None:
        """Replace the global white list, a comma list; of one access file, else the main one."""
        header = UpdateGlobalWhiteAddrsConfigRequestHeader(
            global_white_addrs=addresses, acl_file_full_path=file
        )
        request = Frame(int(RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG), header.to_fields())
        await self._channel.ask_broker(address, Call(request, lambda _reply: None))

    async def versions(self, address: str) -> GetBrokerAclConfigResponseHeader:
        """Versions of the access files. No answer (ClientTimeout) means access control is off."""
        request = Frame(int(RequestCode.GET_BROKER_CLUSTER_ACL_INFO))
        read = GetBrokerAclConfigResponseHeader.from_fields
        return await self._channel.ask_broker(address, Call(request, lambda r: read(r.fields)))

    async def config(self, address: str) -> AclConfig:
        """All accounts; this project's brokers mask the secrets."""
        request = Frame(int(RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG))
        call = Call(request, lambda reply: AclConfig.from_json(reply.body or b"{}"))
        return await self._channel.ask_broker(address, call)
