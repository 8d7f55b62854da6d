"""Maps each request code that the broker answers in Python to its family and processor.

The broker answers other codes with code 3 (not supported), and pulls on the VIP port too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from mqcommon.wire.codes import RequestCode as Code
from mqcommon.wire.codes import ResponseCode
from mqserver.broker.context import BrokerContext
from mqserver.broker.processors import (
    acl,
    broker,
    cleaning,
    client,
    group,
    lock,
    message,
    offset,
    pull,
    query,
    relayed,
    replication,
    reply,
    reset,
    send_back,
    topic,
    transaction,
)
from mqserver.broker.replication.refused import of_slave
from mqserver.config.settings import BrokerSettings
from mqserver.runtime.bad_input import refusing_bad_input
from mqserver.runtime.processor_api import Family, Processor, Reply, Request, Response

BrokerProcessor = Callable[[BrokerContext, Request], Reply]

PROCESSORS: Mapping[int, tuple[str, BrokerProcessor]] = {
    Code.SEND_MESSAGE: ("send", message.send),
    Code.SEND_MESSAGE_V2: ("send", message.send),
    Code.SEND_BATCH_MESSAGE: ("send", message.send),
    Code.CONSUMER_SEND_MSG_BACK: ("send", send_back.send_back),
    Code.SEND_REPLY_MESSAGE: ("reply", reply.reply),
    Code.SEND_REPLY_MESSAGE_V2: ("reply", reply.reply),
    Code.END_TRANSACTION: ("endTransaction", transaction.end_transaction),
    Code.PULL_MESSAGE: ("pull", pull.pull),
    Code.QUERY_MESSAGE: ("query", query.query_message),
    Code.VIEW_MESSAGE_BY_ID: ("query", query.view_message),
    Code.HEART_BEAT: ("heartbeat", client.heartbeat),
    Code.UNREGISTER_CLIENT: ("client", client.unregister),
    Code.CHECK_CLIENT_CONFIG: ("client", client.check_client),
    Code.GET_CONSUMER_LIST_BY_GROUP: ("consumer", client.consumer_list),
    Code.QUERY_CONSUMER_OFFSET: ("consumer", offset.query_offset),
    Code.UPDATE_CONSUMER_OFFSET: ("consumer", offset.update_offset),
    Code.SEARCH_OFFSET_BY_TIMESTAMP: ("admin", offset.search_offset),
    Code.GET_MAX_OFFSET: ("admin", offset.max_offset),
    Code.GET_MIN_OFFSET: ("admin", offset.min_offset),
    Code.GET_EARLIEST_MSG_STORETIME: ("admin", offset.earliest_time),
    Code.GET_ALL_CONSUMER_OFFSET: ("query", offset.all_offsets),
    Code.GET_ALL_DELAY_OFFSET: ("admin", offset.all_delay_offsets),
    Code.QUERY_CONSUME_TIME_SPAN: ("query", offset.consume_time_span),
    Code.INVOKE_BROKER_TO_RESET_OFFSET: ("query", reset.reset_offset),
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: ("admin", reset.consumer_status),
    Code.QUERY_CORRECTION_OFFSET: ("query", reset.correction_offset),
    Code.CLONE_GROUP_OFFSET: ("query", reset.clone_offset),
    Code.QUERY_CONSUME_QUEUE: ("query", query.consume_queue),
    Code.LOCK_BATCH_MQ: ("consumer", lock.lock),
    Code.UNLOCK_BATCH_MQ: ("consumer", lock.unlock),
    Code.UPDATE_AND_CREATE_TOPIC: ("admin", topic.create_topic),
    Code.GET_ALL_TOPIC_CONFIG: ("query", topic.all_topics),
    Code.GET_TOPIC_STATS_INFO: ("query", topic.topic_stats),
    Code.DELETE_TOPIC_IN_BROKER: ("admin", topic.delete_topic),
    Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: ("admin", topic.system_topics),
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: ("admin", group.create_group),
    Code.GET_CONSUMER_CONNECTION_LIST: ("query", group.consumer_connections),
    Code.GET_CONSUME_STATS: ("query", group.consume_stats),
    Code.QUERY_TOPIC_CONSUME_BY_WHO: ("query", group.groups_of_topic),
    Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: ("query", group.all_groups),
    Code.DELETE_SUBSCRIPTIONGROUP: ("admin", group.delete_group),
    Code.GET_PRODUCER_CONNECTION_LIST: ("query", group.producer_connections),
    Code.GET_ALL_PRODUCER_INFO: ("query", group.all_producers),
    Code.GET_BROKER_CONSUME_STATS: ("query", group.all_consume_stats),
    Code.GET_CONSUMER_RUNNING_INFO: ("admin", relayed.running_info),
    Code.CONSUME_MESSAGE_DIRECTLY: ("admin", relayed.consume_directly),
    Code.RESUME_CHECK_HALF_MESSAGE: ("admin", transaction.resume_check),
    Code.UPDATE_BROKER_CONFIG: ("admin", broker.update_config),
    Code.GET_BROKER_CONFIG: ("admin", broker.get_config),
    Code.GET_BROKER_RUNTIME_INFO: ("admin", broker.runtime_info),
    Code.VIEW_BROKER_STATS_DATA: ("admin", broker.view_stats),
    Code.UPDATE_AND_CREATE_ACL_CONFIG: ("admin", acl.update_account),
    Code.DELETE_ACL_CONFIG: ("admin", acl.delete_account),
    Code.GET_BROKER_CLUSTER_ACL_INFO: ("admin", acl.versions),
    Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: ("admin", acl.update_white),
    Code.GET_BROKER_CLUSTER_ACL_CONFIG: ("admin", acl.config),
    Code.CLEAN_EXPIRED_CONSUMEQUEUE: ("query", cleaning.clean_expired_queues),
    Code.CLEAN_UNUSED_TOPIC: ("query", cleaning.clean_unused_topics),
    Code.DELETE_EXPIRED_COMMITLOG: ("admin", cleaning.delete_expired_files),
    Code.GET_SLAVE_STATE: ("query", replication.slave_state),
    Code.GET_ACCESS_FILES: ("admin", replication.access_files),
}

CODE_FAMILIES = {int(code): family for code, (family, _) in PROCESSORS.items()}
DEFAULT_FAMILY = "admin"
_ADMIN_WAITING_MAX = 100_000
_LONG_WAITING_MAX = 100_000
_QUERY_THREADS = 2
_QUERY_PATIENCE_MS = 10_000
"""Longest wait of a request that may answer much; RocketMQ's commands give up after 5 s."""


def processors_of(broker: BrokerContext) -> dict[int, Processor]:
    """The processors of one broker."""
    processors: dict[int, Processor] = {
        int(code): partial(refusing_bad_input(processor), broker)
        for code, (_, processor) in PROCESSORS.items()
    }
    pull = int(Code.PULL_MESSAGE)
    processors[pull] = partial(_main_port_only, processors[pull])
    return of_slave(processors) if broker.settings.is_slave else processors


def _main_port_only(processor: Processor, request: Request) -> Reply:
    return not_supported(request) if request.fast_port else processor(request)


def not_supported(request: Request) -> Reply:
    """The answer to a code that has no processor."""
    remark = f" request type {request.code} not supported"
    return Response(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark)


def patience_of(settings: BrokerSettings) -> dict[str, int] | None:
    """Longest wait of requests of a family, in ms; as in RocketMQ, other families have no limit.

    None: no request is refused because it waited.
    """
    if not settings.broker_fast_failure_enable:
        return None
    return {
        "send": settings.wait_time_mills_in_send_queue,
        "pull": settings.wait_time_mills_in_pull_queue,
        "query": _QUERY_PATIENCE_MS,
        "heartbeat": settings.wait_time_mills_in_heartbeat_queue,
        "large": settings.wait_time_mills_in_heartbeat_queue,
        "endTransaction": settings.wait_time_mills_in_transaction_queue,
    }


def families_of(settings: BrokerSettings) -> dict[str, Family]:
    """The queue capacity and the threads of each family."""
    waiting = {
        "send": settings.send_thread_pool_queue_capacity,
        "reply": settings.reply_thread_pool_queue_capacity,
        "pull": settings.pull_thread_pool_queue_capacity,
        "query": settings.query_thread_pool_queue_capacity,
        "heartbeat": settings.heartbeat_thread_pool_queue_capacity,
        "client": settings.client_manager_thread_pool_queue_capacity,
        "consumer": settings.consumer_manager_thread_pool_queue_capacity,
        "endTransaction": settings.end_transaction_pool_queue_capacity,
        "admin": _ADMIN_WAITING_MAX,
    }
    threads = settings.handoff_threads
    families = {name: Family(name, capacity, threads) for name, capacity in waiting.items()}
    # Requests that may read or answer much: few run at a time and leave the cores to others.
    query = Family("query", waiting["query"], _QUERY_THREADS, rests=True)
    # Requests over 128 KiB that store no message run one at a time, whatever their code.
    large = Family("large", _LONG_WAITING_MAX, threads=1, rests=True)
    return {**families, "query": query, "large": large}
