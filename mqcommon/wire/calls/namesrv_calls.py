"""Calls to a NameServer: routes, clusters, key-values, its settings."""

from __future__ import annotations

from mqcommon.wire.bodies.common import KVTable, TopicList
from mqcommon.wire.bodies.route import ClusterInfo, TopicRouteData
from mqcommon.wire.bodies.route_bounds import read_clusters, read_route
from mqcommon.wire.calls.call import Call, body_of, nothing
from mqcommon.wire.codes import RequestCode, ResponseCode
from mqcommon.wire.frame import request_frame
from mqcommon.wire.headers import namesrv
from mqcommon.wire.headers.namesrv import (
    AddWritePermResponseHeader,
    BrokerNameRequestHeader,
    DeleteTopicFromNamesrvRequestHeader,
    GetKVListByNamespaceRequestHeader,
    KVConfigKeyRequestHeader,
    WipeWritePermResponseHeader,
)
from mqcommon.wire.reply_bounds import read_config


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
    return Call(request_frame(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER), body_of(TopicList))


def topics_by_cluster(cluster: str) -> Call[TopicList]:
    """Topics of one cluster; an unknown cluster has none."""
    header = namesrv.GetTopicsByClusterRequestHeader(cluster=cluster)
    return Call(request_frame(RequestCode.GET_TOPICS_BY_CLUSTER, header), body_of(TopicList))


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
    return Call(request_frame(RequestCode.PUT_KV_CONFIG, header), nothing)


def kv_list(namespace: str) -> Call[dict[str, str]]:
    """A namespace of the NameServer's key-value configuration; empty when there is none."""
    header = GetKVListByNamespaceRequestHeader(namespace=namespace)
    request = request_frame(RequestCode.GET_KVLIST_BY_NAMESPACE, header)
    return Call(
        request,
        lambda reply: {} if reply.code else KVTable.from_json(reply.body).table,
        frozenset((int(ResponseCode.SUCCESS), int(ResponseCode.QUERY_NOT_FOUND))),
    )


def delete_kv(namespace: str, key: str) -> Call[None]:
    """Delete a value of one NameServer's key-value configuration."""
    header = KVConfigKeyRequestHeader(namespace=namespace, key=key)
    return Call(request_frame(RequestCode.DELETE_KV_CONFIG, header), lambda reply: None)


def delete_topic(topic: str, cluster: str | None) -> Call[None]:
    """Delete the route of a topic, in one cluster or in all."""
    header = DeleteTopicFromNamesrvRequestHeader(topic=topic, cluster_name=cluster)
    return Call(request_frame(RequestCode.DELETE_TOPIC_IN_NAMESRV, header), lambda reply: None)


def wipe_write_perm(broker_name: str) -> Call[int]:
    """Take the write permission from every topic of a broker; returns the number of topics."""
    header = BrokerNameRequestHeader(broker_name=broker_name)
    read = WipeWritePermResponseHeader.from_fields
    return Call(
        request_frame(RequestCode.WIPE_WRITE_PERM_OF_BROKER, header),
        lambda reply: read(reply.fields).wipe_topic_count,
    )


def add_write_perm(broker_name: str) -> Call[int]:
    """Give the write permission to every topic of a broker; returns the number of topics."""
    header = BrokerNameRequestHeader(broker_name=broker_name)
    read = AddWritePermResponseHeader.from_fields
    return Call(
        request_frame(RequestCode.ADD_WRITE_PERM_OF_BROKER, header),
        lambda reply: read(reply.fields).add_topic_count,
    )


def config() -> Call[str]:
    """A NameServer's configuration as properties text."""
    return Call(
        request_frame(RequestCode.GET_NAMESRV_CONFIG), lambda reply: read_config(reply.body)
    )


def update_config(properties: str) -> Call[None]:
    """Change a running NameServer's configuration. properties: lines `key=value`."""
    request = request_frame(RequestCode.UPDATE_NAMESRV_CONFIG, body=properties.encode())
    return Call(request, lambda reply: None)
