"""Headers of the NameServer: registration, routes, key-value configuration."""

from mqclient.wire.headers.base import Header, Int32, Name, header


@header
class GetRouteInfoRequestHeader(Header):
    """GET_ROUTEINFO_BY_TOPIC (105)."""

    topic: Name
    accept_standard_json_only: bool | None = None


@header
class RegisterBrokerRequestHeader(Header):
    """REGISTER_BROKER (103). broker_id: 0 is the master; body_crc32: 0 is not checked."""

    broker_name: Name
    broker_addr: Name
    cluster_name: Name
    ha_server_addr: Name
    broker_id: int
    compressed: bool = False
    body_crc32: Int32 = 0


@header
class RegisterBrokerResponseHeader(Header):
    """Answer to REGISTER_BROKER; filled for a slave whose master is alive."""

    ha_server_addr: Name | None = None
    master_addr: str | None = None


@header
class BrokerIdentityRequestHeader(Header):
    """UNREGISTER_BROKER (104) and QUERY_DATA_VERSION (322)."""

    broker_name: Name
    broker_addr: Name
    cluster_name: Name
    broker_id: int


@header
class QueryDataVersionResponseHeader(Header):
    """Answer to QUERY_DATA_VERSION."""

    changed: bool


@header
class PutKVConfigRequestHeader(Header):
    """PUT_KV_CONFIG (100)."""

    namespace: str
    key: str
    value: str


@header
class KVConfigKeyRequestHeader(Header):
    """GET_KV_CONFIG (101) and DELETE_KV_CONFIG (102)."""

    namespace: str
    key: str


@header
class GetKVConfigResponseHeader(Header):
    """Answer to GET_KV_CONFIG."""

    value: str | None = None


@header
class GetKVListByNamespaceRequestHeader(Header):
    """GET_KVLIST_BY_NAMESPACE (219)."""

    namespace: str


@header
class GetTopicsByClusterRequestHeader(Header):
    """GET_TOPICS_BY_CLUSTER (224)."""

    cluster: Name


@header
class DeleteTopicFromNamesrvRequestHeader(Header):
    """DELETE_TOPIC_IN_NAMESRV (216)."""

    topic: Name
    cluster_name: Name | None = None


@header
class BrokerNameRequestHeader(Header):
    """WIPE_WRITE_PERM_OF_BROKER (205) and ADD_WRITE_PERM_OF_BROKER (327)."""

    broker_name: Name


@header
class WipeWritePermResponseHeader(Header):
    """Answer to WIPE_WRITE_PERM_OF_BROKER."""

    wipe_topic_count: Int32


@header
class AddWritePermResponseHeader(Header):
    """Answer to ADD_WRITE_PERM_OF_BROKER."""

    add_topic_count: Int32
