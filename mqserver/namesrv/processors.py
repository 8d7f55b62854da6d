"""Processors of the NameServer, one function per request code (`DefaultRequestProcessor`).

As in RocketMQ 4.9, a request whose code is not in `PROCESSORS` gets no answer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from zlib import crc32

from mqcommon.wire.bodies.common import DataVersion, KVTable, TopicList
from mqcommon.wire.bodies.registration import Registered, Row, read
from mqcommon.wire.bodies.topics import (
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigSerializeWrapper,
)
from mqcommon.wire.codes import RequestCode, ResponseCode
from mqcommon.wire.headers.namesrv import (
    AddWritePermResponseHeader,
    BrokerIdentityRequestHeader,
    BrokerNameRequestHeader,
    GetTopicsByClusterRequestHeader,
    QueryDataVersionResponseHeader,
    RegisterBrokerRequestHeader,
    RegisterBrokerResponseHeader,
    WipeWritePermResponseHeader,
)
from mqserver.config.online import OnlineSettings
from mqserver.config.settings import NamesrvSettings
from mqserver.namesrv.answers import LEGACY, cluster_body, route_body, style_of
from mqserver.namesrv.kv import ORDER_NAMESPACE, KeyValues
from mqserver.namesrv.routes import AddressTaken, Registration, Routes
from mqserver.registration.secret import SignatureCheck
from mqserver.runtime.bad_input import refusing_bad_input
from mqserver.runtime.guard import Guard, host_of, is_private
from mqserver.runtime.processor_api import NO_REPLY, Processor, Refused, Reply, Request, Response

log = logging.getLogger("mqserver.namesrv")
_VERSION_3_0_11 = 37
_FAQ = "\nSee http://rocketmq.apache.org/docs/faq/ for further details."


@dataclass(slots=True)
class Names:
    """The parts of one NameServer that its processors use.

    publish: gives the Rust data plane the rendered route of a topic. is_open: whether a connection
    is open. product: in a test cluster, asks the product environment for the route of a topic; None
    in other clusters.
    """

    settings: NamesrvSettings
    routes: Routes
    kv: KeyValues
    online: OnlineSettings
    brokers: Guard
    signatures: SignatureCheck
    publish: Callable[[str, str, bytes], None]
    is_open: Callable[[int], bool]
    product: Callable[[str], bytes | None] | None = None


def put_kv(names: Names, request: Request) -> Reply:
    """PUT_KV_CONFIG (100)."""
    namespace, key = request.fields.get("namespace"), request.fields.get("key")
    if namespace is None or key is None:
        return Response(ResponseCode.SYSTEM_ERROR, "namespace or key is null")
    names.kv.put(namespace, key, request.fields.get("value"))
    return Response()


def get_kv(names: Names, request: Request) -> Reply:
    """GET_KV_CONFIG (101)."""
    namespace, key = request.fields.get("namespace"), request.fields.get("key")
    value = names.kv.get(namespace, key)
    if value is None:
        remark = f"No config item, Namespace: {_shown(namespace)} Key: {_shown(key)}"
        return Response(ResponseCode.QUERY_NOT_FOUND, remark, {})
    return Response(fields={"value": value})


def delete_kv(names: Names, request: Request) -> Reply:
    """DELETE_KV_CONFIG (102): always answers success."""
    names.kv.delete(request.fields.get("namespace"), request.fields.get("key"))
    return Response()


def list_kv(names: Names, request: Request) -> Reply:
    """GET_KVLIST_BY_NAMESPACE (219)."""
    namespace = request.fields.get("namespace")
    table = names.kv.table(namespace)
    if table is None:
        remark = f"No config item, Namespace: {_shown(namespace)}"
        return Response(ResponseCode.QUERY_NOT_FOUND, remark)
    return Response(body=KVTable(table).to_json())


def _shown(text: str | None) -> str:
    """A field in Java's form, which shows a missing field as null."""
    return "null" if text is None else text


def _crc32(body: bytes) -> int:
    return crc32(body) & 0x7FFFFFFF


def register_broker(names: Names, request: Request) -> Reply:
    """REGISTER_BROKER (103)."""
    _check_source(names, request)
    header = RegisterBrokerRequestHeader.from_fields(request.fields)
    if header.body_crc32 and header.body_crc32 != _crc32(request.body):
        return Response(ResponseCode.SYSTEM_ERROR, "crc32 not match", {})
    said = _registered(request, header.compressed)
    try:
        master = names.routes.register(
            Registration(
                header.cluster_name,
                header.broker_name,
                header.broker_id,
                header.broker_addr,
                header.ha_server_addr,
                said.topics,
                said.version,
                said.filter_servers,
                request.connection,
                host_of(request.remote),
            )
        )
    except AddressTaken as taken:
        return _refused(taken)
    finally:
        if not names.is_open(request.connection):  # it closed before this registration was handled
            names.routes.close(request.connection, request.remote)
    orders = names.kv.table(ORDER_NAMESPACE)
    answer = RegisterBrokerResponseHeader(
        ha_server_addr=master.ha_address if master else None,
        master_addr=names.routes.master_address(header.broker_name) if master else None,
    )
    return Response(
        fields=answer.to_fields(), body=KVTable(orders).to_json() if orders is not None else None
    )


def _refused(taken: AddressTaken) -> Response:
    log.error("refused the request of a broker: %s", taken)
    return Response(ResponseCode.NO_PERMISSION, str(taken), {})


def _registered(request: Request, compressed: bool) -> Registered:
    """The topics and filter servers of a registration; old brokers send only topics."""
    if not request.body:
        return Registered({}, DataVersion(), None)
    if request.version < _VERSION_3_0_11:
        return _taken(TopicConfigSerializeWrapper.from_json(request.body), None)
    usual = read(request.body, compressed)
    if usual is not None:
        return usual
    body = RegisterBrokerBody.decode(request.body, compressed)
    return _taken(body.topic_config_serialize_wrapper, body.filter_server_list)


def _taken(wrapper: TopicConfigSerializeWrapper, filters: list[str] | None) -> Registered:
    shapes: dict[Row, Row] = {}  # equal rows share one tuple, which saves memory
    rows = {name: _row(config) for name, config in wrapper.topic_config_table.items()}
    shared = {name: shapes.setdefault(row, row) for name, row in rows.items()}
    return Registered(shared, wrapper.data_version, filters)


def _row(config: TopicConfig) -> Row:
    return config.read_queue_nums, config.write_queue_nums, config.perm, config.topic_sys_flag


def unregister_broker(names: Names, request: Request) -> Reply:
    """UNREGISTER_BROKER (104)."""
    _check_source(names, request)
    header = BrokerIdentityRequestHeader.from_fields(request.fields)
    try:
        names.routes.unregister_from(
            host_of(request.remote),
            header.broker_name,
            header.broker_id,
            header.broker_addr,
            header.cluster_name,
        )
    except AddressTaken as taken:
        return _refused(taken)
    return Response()


def query_data_version(names: Names, request: Request) -> Reply:
    """QUERY_DATA_VERSION (322): a broker asks whether it must register again."""
    _check_source(names, request)
    header = BrokerIdentityRequestHeader.from_fields(request.fields)
    asked = DataVersion.from_json(request.body)
    try:
        changed, known = names.routes.query_version(
            header.broker_addr, asked, host_of(request.remote)
        )
    except AddressTaken as taken:
        return _refused(taken)
    answer = QueryDataVersionResponseHeader(changed=changed)
    return Response(fields=answer.to_fields(), body=known.to_json() if known else None)


def get_route(names: Names, request: Request) -> Reply:
    """GET_ROUTEINFO_BY_TOPIC (105). A test cluster's own routes win over the product's."""
    topic = request.fields.get("topic")
    standard = request.fields.get("acceptStandardJsonOnly", "").lower() == "true"
    # As in RocketMQ, a test cluster answers in the old JSON dialect only.
    style = LEGACY if names.product else style_of(request.version, standard)
    body = _route(names, topic or "", style)
    if body is None and names.product:
        body = names.product(topic or "")
    if body is None:
        remark = f"No topic route info in name server for the topic: {_shown(topic)}{_FAQ}"
        return Response(ResponseCode.TOPIC_NOT_EXIST, remark)
    return Response(body=body)


def _route(names: Names, topic: str, style: str) -> bytes | None:
    """Render and publish a topic's route under the lock; None if no broker has the topic."""
    with names.routes.lock:
        found = names.routes.route(topic)
        if found is None:
            return None
        brokers, queues, filters = found
        is_ordered = names.settings.order_message_enable or names.product is not None
        order = names.kv.get(ORDER_NAMESPACE, topic) if is_ordered else None
        body = route_body(brokers, queues, filters, order, style)
        if not is_ordered:
            names.publish(style, topic, body)
    return body


def get_clusters(names: Names, request: Request) -> Reply:
    """GET_BROKER_CLUSTER_INFO (106)."""
    return Response(body=cluster_body(names.routes.clusters()))


def wipe_write(names: Names, request: Request) -> Reply:
    """WIPE_WRITE_PERM_OF_BROKER (205): changes memory, until the broker registers a change."""
    header = BrokerNameRequestHeader.from_fields(request.fields)
    count = names.routes.wipe_write(header.broker_name)
    return Response(fields=WipeWritePermResponseHeader(wipe_topic_count=count).to_fields())


def add_write(names: Names, request: Request) -> Reply:
    """ADD_WRITE_PERM_OF_BROKER (327)."""
    header = BrokerNameRequestHeader.from_fields(request.fields)
    count = names.routes.add_write(header.broker_name)
    return Response(fields=AddWritePermResponseHeader(add_topic_count=count).to_fields())


def get_topics(names: Names, request: Request) -> Reply:
    """GET_ALL_TOPIC_LIST_FROM_NAMESERVER (206)."""
    return Response(body=TopicList(names.routes.topics()).to_json())


def get_topics_of_cluster(names: Names, request: Request) -> Reply:
    """GET_TOPICS_BY_CLUSTER (224)."""
    header = GetTopicsByClusterRequestHeader.from_fields(request.fields)
    return Response(body=TopicList(names.routes.topics_of_cluster(header.cluster)).to_json())


def get_system_topics(names: Names, request: Request) -> Reply:
    """GET_SYSTEM_TOPIC_LIST_FROM_NS (304)."""
    topics, address = names.routes.system_topics()
    return Response(body=TopicList(topics, address).to_json())


def get_unit_topics(names: Names, request: Request) -> Reply:
    """GET_UNIT_TOPIC_LIST (311), GET_HAS_UNIT_SUB_TOPIC_LIST (312) and
    GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST (313)."""
    wanted: dict[int, Callable[[int], bool]] = {
        RequestCode.GET_UNIT_TOPIC_LIST: lambda flag: bool(flag & 1),
        RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: lambda flag: bool(flag & 2),
        RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: lambda flag: flag & 3 == 2,
    }
    return Response(body=TopicList(names.routes.unit_topics(wanted[request.code])).to_json())


def delete_topic(names: Names, request: Request) -> Reply:
    """DELETE_TOPIC_IN_NAMESRV (216)."""
    topic = request.fields.get("topic", "")
    names.routes.delete_topic(topic, request.fields.get("clusterName"))
    return Response()


def update_config(names: Names, request: Request) -> Reply:
    """UPDATE_NAMESRV_CONFIG (318)."""
    names.online.update(request.body.decode(), request.remote)
    return Response()


def get_config(names: Names, request: Request) -> Reply:
    """GET_NAMESRV_CONFIG (319)."""
    return Response(body=names.online.text().encode())


def silence(request: Request) -> Reply:
    """Answer no other code, so that the client times out, as in RocketMQ 4.9."""
    log.warning(
        "ignored request %d from %s, as a NameServer does not know this code",
        request.code,
        request.remote,
    )
    return NO_REPLY


def _check_source(names: Names, request: Request) -> None:
    """Raises Refused if the address or the signature is not a broker's."""
    try:
        _check_address(names, request.remote)
        names.signatures.check(request)
    except Refused as refused:
        why = refused.response.remark
        log.error("refused request %d from %s: %s", request.code, request.remote, why)
        raise


def _check_address(names: Names, remote: str) -> None:
    brokers = names.brokers
    if not brokers.is_open:
        is_known = brokers.trusts(remote)
    else:  # with a secret the signature decides, and not the address
        is_known = names.signatures.is_on or is_private(remote)
    if not is_known:
        raise Refused(
            ResponseCode.NO_PERMISSION,
            f"brokers may not register from {host_of(remote)}; "
            f"add its network to {brokers.key} in the NameServer's settings",
            {},
        )


PROCESSORS: Mapping[int, Callable[[Names, Request], Reply]] = {
    RequestCode.PUT_KV_CONFIG: put_kv,
    RequestCode.GET_KV_CONFIG: get_kv,
    RequestCode.DELETE_KV_CONFIG: delete_kv,
    RequestCode.GET_KVLIST_BY_NAMESPACE: list_kv,
    RequestCode.REGISTER_BROKER: register_broker,
    RequestCode.UNREGISTER_BROKER: unregister_broker,
    RequestCode.QUERY_DATA_VERSION: query_data_version,
    RequestCode.GET_ROUTEINFO_BY_TOPIC: get_route,
    RequestCode.GET_BROKER_CLUSTER_INFO: get_clusters,
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: wipe_write,
    RequestCode.ADD_WRITE_PERM_OF_BROKER: add_write,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: get_topics,
    RequestCode.GET_TOPICS_BY_CLUSTER: get_topics_of_cluster,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: get_system_topics,
    RequestCode.GET_UNIT_TOPIC_LIST: get_unit_topics,
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: get_unit_topics,
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: get_unit_topics,
    RequestCode.DELETE_TOPIC_IN_NAMESRV: delete_topic,
    RequestCode.UPDATE_NAMESRV_CONFIG: update_config,
    RequestCode.GET_NAMESRV_CONFIG: get_config,
}
"""The function that answers each request code of RocketMQ 4.9's NameServer."""


def processors_of(names: Names) -> dict[int, Processor]:
    """The processors of one NameServer."""
    return {
        int(code): partial(refusing_bad_input(processor), names)
        for code, processor in PROCESSORS.items()
    }
