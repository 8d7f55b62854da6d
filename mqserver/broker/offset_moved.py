"""The event for a pull at an offset that does not exist (`PullMessageProcessor`)."""

from __future__ import annotations

from mqcommon import fastjson, names
from mqcommon.message import encode_properties
from mqcommon.wire.headers.pull import PullMessageRequestHeader
from mqserver.broker.context import BrokerContext


def note_moved(broker: BrokerContext, header: PullMessageRequestHeader, new_offset: int) -> None:
    """Store an OffsetMovedEvent in OFFSET_MOVED_EVENT, queue 0, tagged with the group."""
    queue = {
        "brokerName": broker.settings.broker_name,
        "queueId": header.queue_id,
        "topic": header.topic,
    }
    event = {
        "consumerGroup": header.consumer_group,
        "messageQueue": queue,
        "offsetNew": new_offset,
        "offsetRequest": header.queue_offset,
    }
    group = header.consumer_group
    pairs = {"KEYS": group, "DELAY": "0", "TAGS": group} if group else {"DELAY": "0"}
    broker.store.put(
        names.OFFSET_MOVED_TOPIC,
        fastjson.dumps(event).encode(),
        properties=encode_properties(pairs),
        born_timestamp_ms=broker.now_ms(),
        born_host=broker.store_host,
        store_host=broker.store_host,
    )
