"""Calls about groups, their members and their running state."""

from __future__ import annotations

from mqcommon.wire.bodies.groups import (
    ConsumerConnection,
    ConsumeStats,
    GroupConfig,
    ProducerConnection,
    ProducerTableInfo,
    SubscriptionGroupWrapper,
)
from mqcommon.wire.bodies.heartbeat import (
    CheckClientRequestBody,
    GetConsumerListByGroupResponseBody,
    HeartbeatData,
)
from mqcommon.wire.bodies.running import ConsumerRunningInfo
from mqcommon.wire.calls.call import Call, body_of, nothing
from mqcommon.wire.codes import RequestCode
from mqcommon.wire.frame import request_frame
from mqcommon.wire.headers import admin, clients
from mqcommon.wire.headers.admin import DeleteSubscriptionGroupRequestHeader
from mqcommon.wire.headers.clients import GetConsumerRunningInfoRequestHeader


def heartbeat(data: HeartbeatData) -> Call[int]:
    """Send a heartbeat with the groups of this client; returns the broker's version ordinal."""
    return Call(
        request_frame(RequestCode.HEART_BEAT, None, data.to_json()), lambda reply: reply.version
    )


def unregister_client(
    client_id: str, *, producer_group: str | None = None, consumer_group: str | None = None
) -> Call[None]:
    """Unregister a group of this client at a broker."""
    header = clients.UnregisterClientRequestHeader(
        client_id=client_id, producer_group=producer_group, consumer_group=consumer_group
    )
    return Call(request_frame(RequestCode.UNREGISTER_CLIENT, header), nothing)


def consumer_ids(group: str) -> Call[list[str]]:
    """Client ids of a group's members."""
    header = clients.ConsumerGroupRequestHeader(consumer_group=group)
    return Call(
        request_frame(RequestCode.GET_CONSUMER_LIST_BY_GROUP, header),
        lambda reply: GetConsumerListByGroupResponseBody.from_json(reply.body).consumer_id_list,
    )


def check_client_config(body: CheckClientRequestBody) -> Call[None]:
    """Ask whether a filter expression that is not a tag expression may be used."""
    return Call(request_frame(RequestCode.CHECK_CLIENT_CONFIG, None, body.to_json()), nothing)


def consume_stats(group: str, topic: str | None = None) -> Call[ConsumeStats]:
    """Progress of a group on one broker; topic None means every topic."""
    header = admin.GetConsumeStatsRequestHeader(consumer_group=group, topic=topic)
    return Call(request_frame(RequestCode.GET_CONSUME_STATS, header), body_of(ConsumeStats))


def consumer_connection(group: str) -> Call[ConsumerConnection]:
    """Members and subscriptions of a consumer group on one broker."""
    header = clients.ConsumerGroupRequestHeader(consumer_group=group)
    return Call(
        request_frame(RequestCode.GET_CONSUMER_CONNECTION_LIST, header), body_of(ConsumerConnection)
    )


def producer_connection(group: str) -> Call[ProducerConnection]:
    """Members of a producer group on one broker."""
    header = clients.ProducerGroupRequestHeader(producer_group=group)
    return Call(
        request_frame(RequestCode.GET_PRODUCER_CONNECTION_LIST, header), body_of(ProducerConnection)
    )


def all_subscription_groups() -> Call[SubscriptionGroupWrapper]:
    """Configuration of every consumer group of a broker."""
    return Call(
        request_frame(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG),
        body_of(SubscriptionGroupWrapper),
    )


def create_subscription_group(config: GroupConfig) -> Call[None]:
    """Create or change a consumer group on one broker."""
    code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
    return Call(request_frame(code, None, config.to_json()), nothing)


def running_info(group: str, client_id: str, *, stacks: bool = False) -> Call[ConsumerRunningInfo]:
    """The running state of a member of a group; the broker relays the request to the member."""
    header = GetConsumerRunningInfoRequestHeader(
        consumer_group=group, client_id=client_id, jstack_enable=stacks
    )
    request = request_frame(RequestCode.GET_CONSUMER_RUNNING_INFO, header)
    return Call(request, lambda reply: ConsumerRunningInfo.from_json(reply.body))


def delete_group(group: str, *, remove_offset: bool) -> Call[None]:
    """Delete a consumer group of one broker. remove_offset: its committed offsets too."""
    header = DeleteSubscriptionGroupRequestHeader(group_name=group, remove_offset=remove_offset)
    return Call(request_frame(RequestCode.DELETE_SUBSCRIPTIONGROUP, header), lambda reply: None)


def all_producers() -> Call[ProducerTableInfo]:
    """The producers that a broker knows, by group."""
    request = request_frame(RequestCode.GET_ALL_PRODUCER_INFO)
    return Call(request, lambda reply: ProducerTableInfo.from_json(reply.body))
