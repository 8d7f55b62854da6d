"""Every call of a client, without IO: the request, and the reader of its answer.

call = calls.max_offset(queue)
reply = await transport.call(address, call.request, timeout)
offset = call.result(reply, address)        # BrokerError when the code is not one expected
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from mqcommon.errors import BrokerError, MalformedReply
from mqcommon.message import MessageQueue
from mqcommon.wire.bodies.base import Body
from mqcommon.wire.bodies.common import KVTable, TopicList
from mqcommon.wire.bodies.groups import (
    ConsumerConnection,
    ConsumeStats,
    ProducerConnection,
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
)
from mqcommon.wire.bodies.heartbeat import (
    CheckClientRequestBody,
    GetConsumerListByGroupResponseBody,
    HeartbeatData,
)
from mqcommon.wire.bodies.offsets import LockBatchRequestBody, LockBatchResponseBody
from mqcommon.wire.bodies.route import ClusterInfo, TopicRouteData
from mqcommon.wire.bodies.route_bounds import read_clusters, read_route
from mqcommon.wire.bodies.topics import TopicConfigSerializeWrapper, TopicStatsTable
from mqcommon.wire.codes import PullSysFlag, RequestCode, ResponseCode
from mqcommon.wire.frame import Frame, request_frame
from mqcommon.wire.headers import admin, clients, namesrv, offsets, pull, send
from mqcommon.wire.reply_bounds import check_fields

R = TypeVar("R")
_B = TypeVar("_B", bound=Body)
_SUCCESS = frozenset((int(ResponseCode.SUCCESS),))
_PULLED = frozenset(
    map(
        int,
        (
            ResponseCode.SUCCESS,
            ResponseCode.PULL_NOT_FOUND,
            ResponseCode.PULL_RETRY_IMMEDIATELY,
            ResponseCode.PULL_OFFSET_MOVED,
        ),
    )
)
"""Answers to a pull: messages, none at the end, none of the wanted, another offset."""


@dataclass(frozen=True, slots=True)
class Call(Generic[R]):
    """A request and the reader of its answer.

    accepts: response codes of success; `parse` turns such a reply into the result.
    """

    request: Frame
    parse: Callable[[Frame], R]
    accepts: frozenset[int] = _SUCCESS

    def result(self, reply: Frame, server: str = "") -> R:
        """Read the reply. server: name of the server, for the error.

        Raises BrokerError if the reply's code is not one of `accepts`, MalformedReply if it cannot
        be read.
        """
        check_fields(reply, server)
        if reply.code not in self.accepts:
            raise BrokerError(reply.code, reply.remark, server)
        try:
            return self.parse(reply)
        except (ValueError, LookupError, TypeError, OverflowError) as error:
            raise MalformedReply(error, server) from error


def _nothing(_reply: Frame) -> None:
    return None


def _body(kind: type[_B]) -> Callable[[Frame], _B]:
    """An absent body is an empty object, as Java treats it."""
    return lambda reply: kind.from_json(reply.body or b"{}")


# --- NameServer


def route(topic: str) -> Call[TopicRouteData | None]:
    """Route of a topic; None if the NameServer does not know it."""
    return Call(
        request_frame(
            RequestCode.GET_ROUTEINFO_BY_TOPIC, namesrv.GetRouteInfoRequestHeader(topic=topic)
        ),
        lambda reply: None if reply.code else read_route(reply.body),
        frozenset((int(ResponseCode.SUCCESS), int(ResponseCode.TOPIC_NOT_EXIST))),
    )


def cluster_info() -> Call[ClusterInfo]:
    """All clusters and their brokers."""
    return Call(
        request_frame(RequestCode.GET_BROKER_CLUSTER_INFO), lambda reply: read_clusters(reply.body)
    )


def topic_list() -> Call[TopicList]:
    """All topics that the NameServer knows."""
    return Call(request_frame(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER), _body(TopicList))


def topics_by_cluster(cluster: str) -> Call[TopicList]:
    """Topics of one cluster; an unknown cluster has none."""
    header = namesrv.GetTopicsByClusterRequestHeader(cluster=cluster)
    return Call(request_frame(RequestCode.GET_TOPICS_BY_CLUSTER, header), _body(TopicList))


def get_kv_config(namespace: str, key: str) -> Call[str | None]:
    """A value of the NameServer's key-value configuration, None when there is none."""
    header = namesrv.KVConfigKeyRequestHeader(namespace=namespace, key=key)
    return Call(
        request_frame(RequestCode.GET_KV_CONFIG, header),
        lambda reply: reply.fields.get("value"),
        frozenset((int(ResponseCode.SUCCESS), int(ResponseCode.QUERY_NOT_FOUND))),
    )


def put_kv_config(namespace: str, key: str, value: str) -> Call[None]:
    """Set a value of one NameServer's key-value configuration."""
    header = namesrv.PutKVConfigRequestHeader(namespace=namespace, key=key, value=value)
    return Call(request_frame(RequestCode.PUT_KV_CONFIG, header), _nothing)


# --- messages


def send_back(header: send.ConsumerSendMsgBackRequestHeader) -> Call[None]:
    """Give a message back to the broker, to be delivered again later."""
    return Call(request_frame(RequestCode.CONSUMER_SEND_MSG_BACK, header), _nothing)


def end_transaction(header: send.EndTransactionRequestHeader) -> Call[None]:
    """Commit or roll back a half message; sent one-way."""
    return Call(request_frame(RequestCode.END_TRANSACTION, header), _nothing)


def view_message(physical_offset: int) -> Call[bytes]:
    """The record at a physical offset, in stored form."""
    header = pull.ViewMessageRequestHeader(offset=physical_offset)
    return Call(request_frame(RequestCode.VIEW_MESSAGE_BY_ID, header), lambda reply: reply.body)


def query_message(header: pull.QueryMessageRequestHeader) -> Call[bytes]:
    """Records that the index finds, in stored form; empty when there is none."""
    return Call(
        request_frame(RequestCode.QUERY_MESSAGE, header),
        lambda reply: b"" if reply.code else reply.body,
        frozenset((int(ResponseCode.SUCCESS), int(ResponseCode.QUERY_NOT_FOUND))),
    )


# --- offsets


def _offset(reply: Frame) -> int:
    return offsets.OffsetResponseHeader.from_fields(reply.fields).offset


def _queue_header(queue: MessageQueue) -> offsets.QueueRequestHeader:
    return offsets.QueueRequestHeader(
        topic=queue.topic, queue_id=queue.queue_id, broker_name=queue.broker_name
    )


def max_offset(queue: MessageQueue) -> Call[int]:
    """The offset the next message of a queue will get."""
    return Call(request_frame(RequestCode.GET_MAX_OFFSET, _queue_header(queue)), _offset)


def min_offset(queue: MessageQueue) -> Call[int]:
    """The smallest offset of a queue that can still be read."""
    return Call(request_frame(RequestCode.GET_MIN_OFFSET, _queue_header(queue)), _offset)


def earliest_store_time(queue: MessageQueue) -> Call[int]:
    """When the oldest message of a queue was stored, in ms; -1 when it is empty."""
    return Call(
        request_frame(RequestCode.GET_EARLIEST_MSG_STORETIME, _queue_header(queue)),
        lambda reply: offsets.TimestampResponseHeader.from_fields(reply.fields).timestamp,
    )


def search_offset(queue: MessageQueue, timestamp_ms: int) -> Call[int]:
    """The offset of a queue at a store time in ms."""
    header = offsets.SearchOffsetRequestHeader(
        topic=queue.topic,
        queue_id=queue.queue_id,
        timestamp=timestamp_ms,
        broker_name=queue.broker_name,
    )
    return Call(request_frame(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header), _offset)


def pull_at_once(queue: MessageQueue, group: str, offset: int, count: int) -> Call[Frame]:
    """Messages of a queue from an offset on, as they are now; commits nothing.

    group: any group that may read the topic; its subscription is not touched.
    """
    header = pull.PullMessageRequestHeader(
        consumer_group=group,
        topic=queue.topic,
        queue_id=queue.queue_id,
        queue_offset=offset,
        max_msg_nums=count,
        sys_flag=int(PullSysFlag.SUBSCRIPTION),
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription="*",
        sub_version=0,
        expression_type="TAG",
        broker_name=queue.broker_name,
    )
    request = request_frame(RequestCode.PULL_MESSAGE, header)
    return Call(request, lambda reply: reply, _PULLED)


def query_consumer_offset(
    group: str, queue: MessageQueue, *, zero_if_new: bool | None = None
) -> Call[int | None]:
    """A group's committed offset in a queue; None when the broker has none.

    zero_if_new: False asks for None where RocketMQ 4 answers 0 for a new group, because the first
    messages of the queue are still in memory. Brokers of RocketMQ 5 and ours heed it.
    """
    header = offsets.QueryConsumerOffsetRequestHeader(
        consumer_group=group,
        topic=queue.topic,
        queue_id=queue.queue_id,
        broker_name=queue.broker_name,
        set_zero_if_not_found=zero_if_new,
    )
    return Call(
        request_frame(RequestCode.QUERY_CONSUMER_OFFSET, header),
        lambda reply: None if reply.code else _offset(reply),
        frozenset((int(ResponseCode.SUCCESS), int(ResponseCode.QUERY_NOT_FOUND))),
    )


def update_consumer_offset(group: str, queue: MessageQueue, offset: int) -> Call[None]:
    """Commit a group's offset in a queue: the next one to read."""
    header = offsets.UpdateConsumerOffsetRequestHeader(
        consumer_group=group,
        topic=queue.topic,
        queue_id=queue.queue_id,
        commit_offset=offset,
        broker_name=queue.broker_name,
    )
    return Call(request_frame(RequestCode.UPDATE_CONSUMER_OFFSET, header), _nothing)


# --- clients


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
    return Call(request_frame(RequestCode.UNREGISTER_CLIENT, header), _nothing)


def consumer_ids(group: str) -> Call[list[str]]:
    """Client ids of a group's members."""
    header = clients.ConsumerGroupRequestHeader(consumer_group=group)
    return Call(
        request_frame(RequestCode.GET_CONSUMER_LIST_BY_GROUP, header),
        lambda reply: GetConsumerListByGroupResponseBody.from_json(reply.body).consumer_id_list,
    )


def check_client_config(body: CheckClientRequestBody) -> Call[None]:
    """Ask whether a filter expression that is not a tag expression may be used."""
    return Call(request_frame(RequestCode.CHECK_CLIENT_CONFIG, None, body.to_json()), _nothing)


def lock_queues(
    group: str, client_id: str, queues: Iterable[MessageQueue]
) -> Call[list[MessageQueue]]:
    """Lock queues for orderly consumption; returns the locked ones."""
    body = LockBatchRequestBody(group, client_id, list(queues)).to_json()
    return Call(
        request_frame(RequestCode.LOCK_BATCH_MQ, None, body),
        lambda reply: LockBatchResponseBody.from_json(reply.body).lock_ok_mq_set,
    )


def unlock_queues(group: str, client_id: str, queues: Iterable[MessageQueue]) -> Call[None]:
    """Unlock queues."""
    body = LockBatchRequestBody(group, client_id, list(queues)).to_json()
    return Call(request_frame(RequestCode.UNLOCK_BATCH_MQ, None, body), _nothing)


# --- administration


def create_topic(header: admin.CreateTopicRequestHeader) -> Call[None]:
    """Create or change a topic on one broker."""
    return Call(request_frame(RequestCode.UPDATE_AND_CREATE_TOPIC, header), _nothing)


def all_topic_config() -> Call[TopicConfigSerializeWrapper]:
    """Configuration of every topic of a broker."""
    return Call(request_frame(RequestCode.GET_ALL_TOPIC_CONFIG), _body(TopicConfigSerializeWrapper))


def topic_stats(topic: str) -> Call[TopicStatsTable]:
    """Extent of each queue of a topic on one broker."""
    header = admin.TopicRequestHeader(topic=topic)
    return Call(request_frame(RequestCode.GET_TOPIC_STATS_INFO, header), _body(TopicStatsTable))


def consume_stats(group: str, topic: str | None = None) -> Call[ConsumeStats]:
    """Progress of a group on one broker; topic None means every topic."""
    header = admin.GetConsumeStatsRequestHeader(consumer_group=group, topic=topic)
    return Call(request_frame(RequestCode.GET_CONSUME_STATS, header), _body(ConsumeStats))


def consumer_connection(group: str) -> Call[ConsumerConnection]:
    """Members and subscriptions of a consumer group on one broker."""
    header = clients.ConsumerGroupRequestHeader(consumer_group=group)
    return Call(
        request_frame(RequestCode.GET_CONSUMER_CONNECTION_LIST, header), _body(ConsumerConnection)
    )


def producer_connection(group: str) -> Call[ProducerConnection]:
    """Members of a producer group on one broker."""
    header = clients.ProducerGroupRequestHeader(producer_group=group)
    return Call(
        request_frame(RequestCode.GET_PRODUCER_CONNECTION_LIST, header), _body(ProducerConnection)
    )


def all_subscription_groups() -> Call[SubscriptionGroupWrapper]:
    """Configuration of every consumer group of a broker."""
    return Call(
        request_frame(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG), _body(SubscriptionGroupWrapper)
    )


def create_subscription_group(config: SubscriptionGroupConfig) -> Call[None]:
    """Create or change a consumer group on one broker."""
    code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
    return Call(request_frame(code, None, config.to_json()), _nothing)


def broker_runtime() -> Call[dict[str, str]]:
    """A broker's runtime figures by name."""
    return Call(
        request_frame(RequestCode.GET_BROKER_RUNTIME_INFO),
        lambda reply: KVTable.from_json(reply.body).table,
    )
