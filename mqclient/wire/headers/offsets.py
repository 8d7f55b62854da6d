"""Headers of queue and consumer offsets."""

from mqclient.wire.headers.base import Header, Int32, Name, header


@header
class QueryConsumerOffsetRequestHeader(Header):
    """QUERY_CONSUMER_OFFSET (14)."""

    wire_names = {"broker_name": "bname"}
    consumer_group: Name
    topic: Name
    queue_id: Int32
    broker_name: Name | None = None


@header
class UpdateConsumerOffsetRequestHeader(Header):
    """UPDATE_CONSUMER_OFFSET (15), usually sent one-way."""

    wire_names = {"broker_name": "bname"}
    consumer_group: Name
    topic: Name
    queue_id: Int32
    commit_offset: int
    broker_name: Name | None = None


@header
class SearchOffsetRequestHeader(Header):
    """SEARCH_OFFSET_BY_TIMESTAMP (29). timestamp: milliseconds of the store's clock."""

    wire_names = {"broker_name": "bname"}
    topic: Name
    queue_id: Int32
    timestamp: int
    broker_name: Name | None = None


@header
class QueueRequestHeader(Header):
    """GET_MAX_OFFSET (30), GET_MIN_OFFSET (31), GET_EARLIEST_MSG_STORETIME (32): one queue."""

    wire_names = {"broker_name": "bname"}
    topic: Name
    queue_id: Int32
    broker_name: Name | None = None


@header
class OffsetResponseHeader(Header):
    """Answer to 14, 29, 30 and 31."""

    offset: int


@header
class TimestampResponseHeader(Header):
    """Answer to GET_EARLIEST_MSG_STORETIME (32), in milliseconds."""

    timestamp: int


@header
class ResetOffsetRequestHeader(Header):
    """INVOKE_BROKER_TO_RESET_OFFSET (222) and the relayed 220. timestamp: ms, -1 = end."""

    topic: Name
    group: Name
    timestamp: int
    is_force: bool


@header
class CloneGroupOffsetRequestHeader(Header):
    """CLONE_GROUP_OFFSET (314)."""

    src_group: Name
    dest_group: Name
    topic: Name | None = None
    offline: bool | None = None


@header
class QueryCorrectionOffsetHeader(Header):
    """QUERY_CORRECTION_OFFSET (308). filter_groups: comma list."""

    filter_groups: str | None = None
    compare_group: Name
    topic: Name
