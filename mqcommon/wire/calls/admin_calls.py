"""Calls that only administration makes; no IO. See mqcommon.wire.calls.calls."""

from __future__ import annotations

from mqcommon.wire.bodies.acl import AclConfig, PlainAccessConfig
from mqcommon.wire.bodies.common import GroupList
from mqcommon.wire.bodies.groups import BrokerStatsData, ConsumeStatsList
from mqcommon.wire.bodies.running import ConsumeMessageDirectlyResult, ConsumerRunningInfo
from mqcommon.wire.calls.calls import Call
from mqcommon.wire.codes import RequestCode
from mqcommon.wire.frame import request_frame
from mqcommon.wire.headers.admin import (
    CreateAccessConfigRequestHeader,
    DeleteAccessConfigRequestHeader,
    GetBrokerAclConfigResponseHeader,
    GetConsumeStatsInBrokerHeader,
    TopicRequestHeader,
    UpdateGlobalWhiteAddrsConfigRequestHeader,
    ViewBrokerStatsDataRequestHeader,
)
from mqcommon.wire.headers.clients import (
    ConsumeMessageDirectlyResultRequestHeader,
    GetConsumerRunningInfoRequestHeader,
)
from mqcommon.wire.reply_bounds import read_config

ORDER_NAMESPACE = "ORDER_TOPIC_CONFIG"
"""Where NameServers keep the queues of ordered topics: topic to "brokerA:4;brokerB:8"."""


def consumed_by(topic: str) -> Call[list[str]]:
    """Groups that have an offset in a topic on one broker."""
    request = request_frame(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, TopicRequestHeader(topic=topic))
    return Call(request, lambda reply: GroupList.from_json(reply.body or b"{}").group_list)


def running_info(group: str, client_id: str, *, stacks: bool = False) -> Call[ConsumerRunningInfo]:
    """The running state of a member of a group; the broker relays the request to the member."""
    header = GetConsumerRunningInfoRequestHeader(
        consumer_group=group, client_id=client_id, jstack_enable=stacks
    )
    request = request_frame(RequestCode.GET_CONSUMER_RUNNING_INFO, header)
    return Call(request, lambda reply: ConsumerRunningInfo.from_json(reply.body))


def consume_directly(
    group: str, client_id: str | None, offset_msg_id: str
) -> Call[ConsumeMessageDirectlyResult]:
    """Let a member of a group consume one message now; the broker relays it."""
    header = ConsumeMessageDirectlyResultRequestHeader(
        consumer_group=group, client_id=client_id, msg_id=offset_msg_id
    )
    request = request_frame(RequestCode.CONSUME_MESSAGE_DIRECTLY, header)
    return Call(request, lambda reply: ConsumeMessageDirectlyResult.from_json(reply.body))


def broker_config() -> Call[str]:
    """A broker's configuration as properties text."""
    return Call(request_frame(RequestCode.GET_BROKER_CONFIG), lambda reply: read_config(reply.body))


def broker_stats(name: str, key: str) -> Call[BrokerStatsData]:
    """One of a broker's statistics."""
    header = ViewBrokerStatsDataRequestHeader(stats_name=name, stats_key=key)
    request = request_frame(RequestCode.VIEW_BROKER_STATS_DATA, header)
    return Call(request, lambda reply: BrokerStatsData.from_json(reply.body))


def broker_consume_stats(*, ordered: bool) -> Call[ConsumeStatsList]:
    """Progress of all groups of a broker, or of the ordered groups only."""
    header = GetConsumeStatsInBrokerHeader(is_order=ordered)
    request = request_frame(RequestCode.GET_BROKER_CONSUME_STATS, header)
    return Call(request, lambda reply: ConsumeStatsList.from_json(reply.body))


def update_broker_config(properties: str) -> Call[None]:
    """Change a running broker's configuration. properties: lines `key=value`."""
    request = request_frame(RequestCode.UPDATE_BROKER_CONFIG, body=properties.encode())
    return Call(request, lambda reply: None)


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
