"""Calls about accounts and white lists."""

from __future__ import annotations

from mqcommon.wire.bodies.acl import AclConfig, PlainAccessConfig
from mqcommon.wire.calls.call import Call
from mqcommon.wire.codes import RequestCode
from mqcommon.wire.frame import request_frame
from mqcommon.wire.headers.admin import (
    CreateAccessConfigRequestHeader,
    DeleteAccessConfigRequestHeader,
    GetBrokerAclConfigResponseHeader,
    UpdateGlobalWhiteAddrsConfigRequestHeader,
)


def put_account(account: PlainAccessConfig) -> Call[None]:
    """Create an account, or change the given fields."""
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
    request = request_frame(RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, header)
    return Call(request, lambda reply: None)


def delete_account(access_key: str) -> Call[None]:
    """Delete an account."""
    header = DeleteAccessConfigRequestHeader(access_key=access_key)
    request = request_frame(RequestCode.DELETE_ACL_CONFIG, header)
    return Call(request, lambda reply: None)


def set_white(addresses: str, file: str | None) -> Call[None]:
    """Replace the global white list, of one access file or the main one."""
    header = UpdateGlobalWhiteAddrsConfigRequestHeader(
        global_white_addrs=addresses, acl_file_full_path=file
    )
    request = request_frame(RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, header)
    return Call(request, lambda reply: None)


def acl_versions() -> Call[GetBrokerAclConfigResponseHeader]:
    """Versions of the access files; no answer while access control is off."""
    read = GetBrokerAclConfigResponseHeader.from_fields
    request = request_frame(RequestCode.GET_BROKER_CLUSTER_ACL_INFO)
    return Call(request, lambda reply: read(reply.fields))


def acl_config() -> Call[AclConfig]:
    """All accounts and white lists; no answer while access control is off."""
    request = request_frame(RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG)
    return Call(request, lambda reply: AclConfig.from_json(reply.body or b"{}"))
