"""Headers of queue and consumer offsets."""

from mqcommon.wire.headers.base import Header, Int32, Name


class QueryConsumerOffsetRequestHeader(Header, frozen=True, kw_only=True):
    """QUERY_CONSUMER_OFFSET (14)."""

    wire_names = {"broker_name": "bname"}
    consumer_group: Name
    topic: Name
    queue_id: Int32
    broker_name: Name | None = None
    set_zero_if_not_found: bool | None = None


class UpdateConsumerOffsetRequestHeader(Header, frozen=True, kw_only=True):
    """UPDATE_CONSUMER_OFFSET (15), usually sent one-way."""

    wire_names = {"broker_name": "bname"}
    consumer_group: Name
    topic: Name
    queue_id: Int32
    commit_offset: int
    broker_name: Name | None = None


class SearchOffsetRequestHeader(Header, frozen=True, kw_only=True):
    """SEARCH_OFFSET_BY_TIMESTAMP (29). timestamp: milliseconds of the store's clock."""

    wire_names = {"broker_name": "bname"}
    topic: Name
    queue_id: Int32
    timestamp: int
    broker_name: Name | None = None


class QueueRequestHeader(Header, frozen=True, kw_only=True):
    """GET_MAX_OFFSET (30), GET_MIN_OFFSET (31), GET_EARLIEST_MSG_STORETIME (32): one queue."""

    wire_names = {"broker_name": "bname"}
    topic: Name
    queue_id: Int32
    broker_name: Name | None = None


class OffsetResponseHeader(Header, frozen=True, kw_only=True):
    """Answer to 14, 29, 30 and 31."""

    offset: int


class TimestampResponseHeader(Header, frozen=True, kw_only=True):
    """Answer to GET_EARLIEST_MSG_STORETIME (32), in milliseconds."""

    timestamp: int


class ResetOffsetRequestHeader(Header, frozen=True, kw_only=True):
    """INVOKE_BROKER_TO_RESET_OFFSET (222) and the relayed 220. timestamp: ms, -1 = end."""

    topic: Name
    group: Name
    timestamp: int
    is_force: bool


class CloneGroupOffsetRequestHeader(Header, frozen=True, kw_only=True):
    """CLONE_GROUP_OFFSET (314)."""

    src_group: Name
    dest_group: Name
    topic: Name | None = None
    offline: bool | None = None


class QueryCorrectionOffsetHeader(Header, frozen=True, kw_only=True):
    """QUERY_CORRECTION_OFFSET (308). filter_groups: comma list."""

    filter_groups: str | None = None
    compare_group: Name
    topic: Name
