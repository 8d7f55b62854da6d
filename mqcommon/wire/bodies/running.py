"""Bodies about the running state of a consumer, and about queue contents."""

from msgspec import field

from mqcommon.message import MessageQueue
from mqcommon.wire.bodies.base import Body
from mqcommon.wire.bodies.heartbeat import SubscriptionData
from mqcommon.wire.headers.base import Int32, Name


class ProcessQueueInfo(Body):
    """State of one queue in a consumer. Timestamps in ms; `droped` is RocketMQ's spelling."""

    wire_names = {"cached_msg_size_in_mib": "cachedMsgSizeInMiB"}
    commit_offset: int = 0
    cached_msg_min_offset: int = 0
    cached_msg_max_offset: int = 0
    cached_msg_count: Int32 = 0
    cached_msg_size_in_mib: Int32 = 0
    transaction_msg_min_offset: int = 0
    transaction_msg_max_offset: int = 0
    transaction_msg_count: Int32 = 0
    locked: bool = False
    try_unlock_times: int = 0
    last_lock_timestamp: int = 0
    droped: bool = False
    last_pull_timestamp: int = 0
    last_consume_timestamp: int = 0


class ConsumeStatus(Body):
    """Rates of one topic. RT in ms; TPS per second; consume_failed_msgs in the last hour."""

    wire_names = {
        "pull_rt": "pullRT",
        "pull_tps": "pullTPS",
        "consume_rt": "consumeRT",
        "consume_ok_tps": "consumeOKTPS",
        "consume_failed_tps": "consumeFailedTPS",
    }
    pull_rt: float = 0.0
    pull_tps: float = 0.0
    consume_rt: float = 0.0
    consume_ok_tps: float = 0.0
    consume_failed_tps: float = 0.0
    consume_failed_msgs: int = 0


class ConsumerRunningInfo(Body):
    """The answer to 307."""

    properties: dict[str, str] = field(default_factory=dict)
    subscription_set: list[SubscriptionData] = field(default_factory=list)
    mq_table: dict[MessageQueue, ProcessQueueInfo] = field(default_factory=dict)
    status_table: dict[str, ConsumeStatus] = field(default_factory=dict)
    jstack: str | None = None


class ConsumeMessageDirectlyResult(Body):
    """The answer to 309. consume_result: CR_SUCCESS, CR_LATER, CR_ROLLBACK, CR_COMMIT, ..."""

    consume_result: str | None = None
    order: bool = False
    auto_commit: bool = True
    remark: str | None = None
    spent_time_mills: int = 0


class ConsumeQueueData(Body):
    """One consume-queue entry, and whether the group's filter accepts it."""

    physic_offset: int = 0
    physic_size: Int32 = 0
    tags_code: int = 0
    extend_data_json: str | None = None
    bit_map: str | None = None
    eval: bool = False
    msg: str | None = None


class QueryConsumeQueueResponseBody(Body):
    """The answer to 321."""

    subscription_data: SubscriptionData | None = None
    filter_data: str | None = None
    queue_data: list[ConsumeQueueData] = field(default_factory=list)
    max_queue_index: int = 0
    min_queue_index: int = 0


class OffsetMovedEvent(Body):
    """Body of a message in OFFSET_MOVED_EVENT."""

    consumer_group: Name
    message_queue: MessageQueue
    offset_request: int = 0
    offset_new: int = 0
