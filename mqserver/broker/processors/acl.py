"""Codes 50 to 54, access control (`AdminBrokerProcessor`). Every answer masks secrets."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mqcommon import fastjson
from mqcommon.wire.bodies.acl import AclConfig, PlainAccessConfig
from mqcommon.wire.codes import ResponseCode
from mqcommon.wire.headers.admin import (
    CreateAccessConfigRequestHeader,
    DeleteAccessConfigRequestHeader,
    GetBrokerAclConfigResponseHeader,
    UpdateGlobalWhiteAddrsConfigRequestHeader,
)
from mqserver.broker.acl.accounts import (
    MASK,
    check_keys,
    check_lengths,
    check_permissions,
    scalar,
    truth,
)
from mqserver.broker.acl.errors import AclError
from mqserver.broker.context import BrokerContext
from mqserver.runtime.processor_api import NO_REPLY, Reply, Request, Response

if TYPE_CHECKING:
    from mqserver.broker.acl.control import AccessControl

log = logging.getLogger("mqserver.broker.acl")
OFF = "access control is off: set aclEnable=true in broker.conf and start the broker again"


def update_account(broker: BrokerContext, request: Request) -> Reply:
    """UPDATE_AND_CREATE_ACL_CONFIG (50): fields that the request omits stay, except `admin`."""
    header = CreateAccessConfigRequestHeader.from_fields(request.fields)

    def change(acl: AccessControl) -> bool:
        topics, groups = _split(header.topic_perms), _split(header.group_perms)
        check_lengths(request.fields.values())
        check_keys(header.access_key, header.secret_key)
        check_permissions([*(topics or ()), *(groups or ())])
        given: dict[str, Any] = {
            "accessKey": header.access_key,
            "secretKey": header.secret_key,
            "whiteRemoteAddress": header.white_remote_address,
            "admin": bool(header.admin),
            "defaultTopicPerm": header.default_topic_perm or None,
            "defaultGroupPerm": header.default_group_perm or None,
            "topicPerms": topics,
            "groupPerms": groups,
        }
        acl.put_account({key: value for key, value in given.items() if value is not None})
        return True

    return _changed(
        broker,
        request,
        change,
        ResponseCode.UPDATE_AND_CREATE_ACL_CONFIG_FAILED,
        f"The accesskey[{header.access_key[:255]}] corresponding to accessConfig has been updated "
        "failed.",
    )


def delete_account(broker: BrokerContext, request: Request) -> Reply:
    """DELETE_ACL_CONFIG (51)."""
    key = DeleteAccessConfigRequestHeader.from_fields(request.fields).access_key
    return _changed(
        broker,
        request,
        lambda acl: acl.delete_account(key),
        ResponseCode.DELETE_ACL_CONFIG_FAILED,
        f"The accesskey[{key[:255]}] corresponding to accessConfig has been deleted failed.",
    )


def update_white(broker: BrokerContext, request: Request) -> Reply:
    """UPDATE_GLOBAL_WHITE_ADDRS_CONFIG (53): changes the named access file, or the main file."""
    header = UpdateGlobalWhiteAddrsConfigRequestHeader.from_fields(request.fields)
    addresses = _split(header.global_white_addrs) or []

    def change(acl: AccessControl) -> bool:
        check_lengths(request.fields.values())
        return acl.set_white(addresses, header.acl_file_full_path or "")

    return _changed(
        broker,
        request,
        change,
        ResponseCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED,
        f"The globalWhiteAddresses[{header.global_white_addrs[:255]}] has been updated failed.",
    )


def versions(broker: BrokerContext, request: Request) -> Reply:
    """GET_BROKER_CLUSTER_ACL_INFO (52); as in RocketMQ, no answer while access control is off."""
    acl, settings = broker.acl, broker.settings
    if acl is None:
        return NO_REPLY
    by_file = {str(file.path): file.version.plain() for file in acl.files()}
    header = GetBrokerAclConfigResponseHeader(
        version=fastjson.dumps(acl.version().plain()),
        all_acl_file_version=fastjson.dumps(by_file),
        broker_name=settings.broker_name,
        broker_addr=broker.store_host,
        cluster_name=settings.broker_cluster_name,
    )
    return Response(fields=header.to_fields())


def config(broker: BrokerContext, request: Request) -> Reply:
    """GET_BROKER_CLUSTER_ACL_CONFIG (54); no answer while access control is off."""
    if broker.acl is None:
        return NO_REPLY
    white: list[str] = []
    accounts: dict[str, PlainAccessConfig] = {}
    for file in broker.acl.files():
        white += map(str, file.data.get("globalWhiteRemoteAddresses") or [])
        for entry in file.data.get("accounts") or []:
            shown = _shown(entry)
            accounts.setdefault(shown.access_key, shown)
    return Response(fields={}, body=AclConfig(white, list(accounts.values())).to_json())


def _shown(entry: dict[object, object]) -> PlainAccessConfig:
    def names(key: str) -> list[str] | None:
        listed = entry.get(key)
        return [str(item) for item in listed] if isinstance(listed, list) else None

    return PlainAccessConfig(
        scalar(entry, "accessKey") or "",
        MASK,
        scalar(entry, "whiteRemoteAddress"),
        truth(entry.get("admin")),
        scalar(entry, "defaultTopicPerm"),
        scalar(entry, "defaultGroupPerm"),
        names("topicPerms"),
        names("groupPerms"),
    )


def _changed(
    broker: BrokerContext,
    request: Request,
    change: Callable[[AccessControl], bool],
    failure: int,
    refusal: str,
) -> Reply:
    """Make a change, and answer as RocketMQ does."""
    if broker.acl is None:
        return Response(failure, OFF)
    try:
        if not change(broker.acl):
            return Response(failure, refusal)
    except AclError as error:
        return Response(failure, str(error))
    except OSError as error:
        log.error("cannot write the access file, so nothing changed: %s", error)
        return Response(failure, "the access file cannot be written; the broker's log says why")
    log.warning("access control was changed by request %d from %s", request.code, request.remote)
    return Response()


def _split(text: str | None) -> list[str] | None:
    """Split a list at commas as RocketMQ does; None stays None."""
    if text is None:
        return None
    return [part for part in text.split(",") if part] if text else []
