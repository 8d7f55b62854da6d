"""Shared by the commands `dlq`: options, and messages as rows."""

from __future__ import annotations

from collections.abc import Iterable

from mqadmin.command import Option
from mqadmin.report import Row
from mqcommon.message import ReceivedMessage
from mqcommon.message_row import message_row

GROUP = Option("g", "group", "Consumer group", required=True)
AGAIN = Option(
    "", "again", "Begin at the oldest message, also if it was redriven", takes_value=False
)
COLUMNS = (
    "offsetMsgId", "originTopic", "storeTimestamp", "reconsumeTimes", "tags", "keys", "body",
)  # fmt: skip


def rows_of(messages: Iterable[ReceivedMessage]) -> list[Row]:
    """Messages as rows; originTopic is the topic that the group could not consume them from."""
    return [
        {**message_row(message, "text"), "originTopic": message.properties.get("RETRY_TOPIC")}
        for message in messages
    ]
