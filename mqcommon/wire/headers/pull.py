"""Headers of reads: pull, query by key, view by offset."""

from mqcommon.wire.headers.base import Header, Int32, Name


class PullMessageRequestHeader(Header, frozen=True, kw_only=True):
    """PULL_MESSAGE (11). sys_flag: bits of PullSysFlag; suspend_timeout_millis: broker's hold."""

    wire_names = {"broker_name": "bname"}
    consumer_group: Name
    topic: Name
    queue_id: Int32
    queue_offset: int
    max_msg_nums: Int32
    sys_flag: Int32
    commit_offset: int
    suspend_timeout_millis: int
    subscription: str | None = None
    sub_version: int
    expression_type: str | None = None
    broker_name: Name | None = None


class PullMessageResponseHeader(Header, frozen=True, kw_only=True):
    """Answer to a pull; present with codes 0, 19, 20 and 21."""

    suggest_which_broker_id: int
    next_begin_offset: int
    min_offset: int
    max_offset: int


class QueryMessageRequestHeader(Header, frozen=True, kw_only=True):
    """QUERY_MESSAGE (12): search the index by key, or by unique id when `unique_key` is set."""

    wire_names = {"unique_key": "_UNIQUE_KEY_QUERY"}
    topic: Name
    key: str
    max_num: Int32
    begin_timestamp: int
    end_timestamp: int
    unique_key: bool | None = None


class QueryMessageResponseHeader(Header, frozen=True, kw_only=True):
    """Answer to QUERY_MESSAGE: how far the broker's index reaches."""

    index_last_update_timestamp: int
    index_last_update_phyoffset: int


class ViewMessageRequestHeader(Header, frozen=True, kw_only=True):
    """VIEW_MESSAGE_BY_ID (33). offset: physical offset, taken from an offset message id."""

    offset: int
