"""Headers of administration: topics, groups, statistics, access control."""

from mqcommon.wire.headers.base import Header, Int32, Name


class CreateTopicRequestHeader(Header, frozen=True, kw_only=True):
    """UPDATE_AND_CREATE_TOPIC (17). perm: 4 read + 2 write + 1 inherit."""

    topic: Name
    default_topic: Name
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    topic_filter_type: str
    topic_sys_flag: Int32 | None = None
    order: bool = False


class TopicRequestHeader(Header, frozen=True, kw_only=True):
    """One topic: codes 202, 215 and 300."""

    topic: Name


class DeleteSubscriptionGroupRequestHeader(Header, frozen=True, kw_only=True):
    """DELETE_SUBSCRIPTIONGROUP (207)."""

    group_name: Name
    remove_offset: bool | None = None


class GetConsumeStatsRequestHeader(Header, frozen=True, kw_only=True):
    """GET_CONSUME_STATS (208). topic: blank means all."""

    consumer_group: Name
    topic: Name | None = None


class QueryConsumeTimeSpanRequestHeader(Header, frozen=True, kw_only=True):
    """QUERY_CONSUME_TIME_SPAN (303)."""

    topic: Name
    group: Name


class ViewBrokerStatsDataRequestHeader(Header, frozen=True, kw_only=True):
    """VIEW_BROKER_STATS_DATA (315)."""

    stats_name: str
    stats_key: str


class GetConsumeStatsInBrokerHeader(Header, frozen=True, kw_only=True):
    """GET_BROKER_CONSUME_STATS (317)."""

    is_order: bool


class QueryConsumeQueueRequestHeader(Header, frozen=True, kw_only=True):
    """QUERY_CONSUME_QUEUE (321)."""

    topic: Name | None = None
    queue_id: Int32 | None = None
    index: int | None = None
    count: Int32 | None = None
    consumer_group: Name | None = None


class ResumeCheckHalfMessageRequestHeader(Header, frozen=True, kw_only=True):
    """RESUME_CHECK_HALF_MESSAGE (323). msg_id: offset message id."""

    msg_id: str | None = None


class GetBrokerConfigResponseHeader(Header, frozen=True, kw_only=True):
    """Answer to GET_BROKER_CONFIG (26). version: DataVersion as JSON text."""

    version: str


class CreateAccessConfigRequestHeader(Header, frozen=True, kw_only=True):
    """UPDATE_AND_CREATE_ACL_CONFIG (50). topic_perms, group_perms: "a=PUB,b=SUB"."""

    access_key: str
    secret_key: str | None = None
    white_remote_address: str | None = None
    admin: bool | None = None
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: str | None = None
    group_perms: str | None = None


class DeleteAccessConfigRequestHeader(Header, frozen=True, kw_only=True):
    """DELETE_ACL_CONFIG (51)."""

    access_key: str


class UpdateGlobalWhiteAddrsConfigRequestHeader(Header, frozen=True, kw_only=True):
    """UPDATE_GLOBAL_WHITE_ADDRS_CONFIG (53). global_white_addrs: comma list."""

    global_white_addrs: str
    acl_file_full_path: str | None = None


class GetBrokerAclConfigResponseHeader(Header, frozen=True, kw_only=True):
    """Answer to GET_BROKER_CLUSTER_ACL_INFO (52)."""

    version: str
    all_acl_file_version: str | None = None
    broker_name: Name
    broker_addr: Name
    cluster_name: Name
