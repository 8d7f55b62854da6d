"""Headers of sends: send, send back, reply, transaction end and check."""

from mqcommon.wire.headers.base import Header, Int32, Name


class SendMessageRequestHeader(Header, frozen=True, kw_only=True):
    """SEND_MESSAGE (10) and SEND_REPLY_MESSAGE (324), with long field names."""

    wire_names = {"broker_name": "bname"}
    producer_group: Name
    topic: Name
    default_topic: Name
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: int
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool = False
    max_reconsume_times: Int32 | None = None
    batch: bool = False
    broker_name: Name | None = None


class SendMessageRequestHeaderV2(SendMessageRequestHeader, frozen=True, kw_only=True):
    """SEND_MESSAGE_V2 (310), SEND_BATCH_MESSAGE (320), 325: the same fields as single letters."""

    wire_names = {
        "producer_group": "a",
        "topic": "b",
        "default_topic": "c",
        "default_topic_queue_nums": "d",
        "queue_id": "e",
        "sys_flag": "f",
        "born_timestamp": "g",
        "flag": "h",
        "properties": "i",
        "reconsume_times": "j",
        "unit_mode": "k",
        "max_reconsume_times": "l",
        "batch": "m",
        "broker_name": "n",
    }


class SendMessageResponseHeader(Header, frozen=True, kw_only=True):
    """Answer to every kind of send.

    msg_id: offset message id, a comma list for a batch. MSG_REGION and TRACE_ON come with every
    answer, errors included, when the broker traces.
    """

    wire_names = {"region_id": "MSG_REGION", "trace_on": "TRACE_ON"}
    msg_id: str
    queue_id: Int32
    queue_offset: int
    transaction_id: str | None = None
    region_id: str | None = None
    trace_on: bool | None = None


class ConsumerSendMsgBackRequestHeader(Header, frozen=True, kw_only=True):
    """CONSUMER_SEND_MSG_BACK (36): put a message into the group's retry topic.

    offset: physical offset of the message. delay_level: 0 lets the broker choose, below 0 sends
    the message to the dead-letter topic.
    """

    wire_names = {"broker_name": "bname"}
    offset: int
    group: Name
    delay_level: Int32
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: Int32 | None = None
    broker_name: Name | None = None


class EndTransactionRequestHeader(Header, frozen=True, kw_only=True):
    """END_TRANSACTION (37). commit_or_rollback: 8 commit, 12 rollback, 0 not decided."""

    wire_names = {"broker_name": "bname"}
    producer_group: Name
    tran_state_table_offset: int
    commit_log_offset: int
    commit_or_rollback: Int32
    from_transaction_check: bool = False
    msg_id: str
    transaction_id: str | None = None
    broker_name: Name | None = None


class CheckTransactionStateRequestHeader(Header, frozen=True, kw_only=True):
    """CHECK_TRANSACTION_STATE (39), broker to producer."""

    wire_names = {"broker_name": "bname"}
    tran_state_table_offset: int
    commit_log_offset: int
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None
    broker_name: Name | None = None


class ReplyMessageRequestHeader(Header, frozen=True, kw_only=True):
    """PUSH_REPLY_MESSAGE_TO_CLIENT (326), broker to the client that waits for a reply."""

    producer_group: Name
    topic: Name
    default_topic: Name
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: int
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool = False
    born_host: str
    store_host: str
    store_timestamp: int
