"""Headers of the NameServer: registration, routes, key-value configuration."""

from mqcommon.wire.headers.base import Header, Int32, Name


class GetRouteInfoRequestHeader(Header, frozen=True, kw_only=True):
    """GET_ROUTEINFO_BY_TOPIC (105)."""

    topic: Name
    accept_standard_json_only: bool | None = None


class RegisterBrokerRequestHeader(Header, frozen=True, kw_only=True):
    """REGISTER_BROKER (103). broker_id: 0 is the master; body_crc32: 0 is not checked."""

    broker_name: Name
    broker_addr: Name
    cluster_name: Name
    ha_server_addr: Name
    broker_id: int
    compressed: bool = False
    body_crc32: Int32 = 0


class RegisterBrokerResponseHeader(Header, frozen=True, kw_only=True):
    """Answer to REGISTER_BROKER; filled for a slave whose master is alive."""

    ha_server_addr: Name | None = None
    master_addr: str | None = None


class BrokerIdentityRequestHeader(Header, frozen=True, kw_only=True):
    """UNREGISTER_BROKER (104) and QUERY_DATA_VERSION (322)."""

    broker_name: Name
    broker_addr: Name
    cluster_name: Name
    broker_id: int


class QueryDataVersionResponseHeader(Header, frozen=True, kw_only=True):
    """Answer to QUERY_DATA_VERSION."""

    changed: bool


class PutKVConfigRequestHeader(Header, frozen=True, kw_only=True):
    """PUT_KV_CONFIG (100)."""

    namespace: str
    key: str
    value: str


class KVConfigKeyRequestHeader(Header, frozen=True, kw_only=True):
    """GET_KV_CONFIG (101) and DELETE_KV_CONFIG (102)."""

    namespace: str
    key: str


class GetKVConfigResponseHeader(Header, frozen=True, kw_only=True):
    """Answer to GET_KV_CONFIG."""

    value: str | None = None


class GetKVListByNamespaceRequestHeader(Header, frozen=True, kw_only=True):
    """GET_KVLIST_BY_NAMESPACE (219)."""

    namespace: str


class GetTopicsByClusterRequestHeader(Header, frozen=True, kw_only=True):
    """GET_TOPICS_BY_CLUSTER (224)."""

    cluster: Name


class DeleteTopicFromNamesrvRequestHeader(Header, frozen=True, kw_only=True):
    """DELETE_TOPIC_IN_NAMESRV (216)."""

    topic: Name
    cluster_name: Name | None = None


class BrokerNameRequestHeader(Header, frozen=True, kw_only=True):
    """WIPE_WRITE_PERM_OF_BROKER (205) and ADD_WRITE_PERM_OF_BROKER (327)."""

    broker_name: Name


class WipeWritePermResponseHeader(Header, frozen=True, kw_only=True):
    """Answer to WIPE_WRITE_PERM_OF_BROKER."""

    wipe_topic_count: Int32


class AddWritePermResponseHeader(Header, frozen=True, kw_only=True):
    """Answer to ADD_WRITE_PERM_OF_BROKER."""

    add_topic_count: Int32
