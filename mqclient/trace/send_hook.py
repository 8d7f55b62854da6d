"""Trace of sends and of ends of transactions.

Rules: RocketMQ 4.9 `SendMessageTraceHookImpl`, `EndTransactionTraceHookImpl`. Unlike
there, the records of a send that was tried at several brokers have the time of all tries.
"""

from mqclient.engine.client import Client
from mqclient.producer.outgoing import Outgoing
from mqclient.producer.results import SendResult
from mqclient.trace.dispatcher import TraceDispatcher
from mqclient.trace.records import (
    COMMIT,
    DELAY,
    HALF,
    NORMAL,
    STATES,
    TraceRecord,
    current_ms,
    keys_of,
    record_text,
)
from mqcommon.message import Message, MessageQueue, ReceivedMessage
from mqcommon.property_text import pairs_of
from mqcommon.wire.codes import MessageSysFlag

__all__ = ["SendTrace"]


class SendTrace:
    """Makes the records of a producer's sends, and of the ends of its transactions."""

    def __init__(self, client: Client, dispatcher: TraceDispatcher) -> None:
        self._client = client
        self._dispatcher = dispatcher

    def sent(self, outgoing: Outgoing, result: SendResult, started_ms: int) -> None:
        """Note that a message or batch is stored. started_ms: when its send began."""
        if outgoing.topic.startswith(self._dispatcher.topic) or not result.trace_on:
            return
        properties = dict(pairs_of(outgoing.properties))
        tags, keys = properties.get("TAGS"), properties.get("KEYS")
        kind = HALF if outgoing.sys_flag & MessageSysFlag.TRANSACTION_PREPARED else NORMAL
        if "DELAY" in properties or "__STARTDELIVERTIME" in properties:
            kind = DELAY
        queue = result.message_queue
        text = record_text(
            *("Pub", started_ms, result.region_id, self._dispatcher.group),
            *(queue.topic, outgoing.msg_id, tags, keys, self._address(queue)),
            *(len(outgoing.body), current_ms() - started_ms, kind),
            *(",".join(result.offset_msg_ids), not result.lesser),
        )
        self._dispatcher.append(TraceRecord(text, keys_of((outgoing.msg_id, keys))))

    def ended(
        self,
        message: Message | ReceivedMessage,
        msg_id: str,
        address: str,
        state: str,
        from_check: bool,
    ) -> None:
        """Note how a transaction ended. address: of the broker. state: a TransactionState's name.

        from_check: whether the broker had asked.
        """
        properties = message.properties
        region = properties.get("MSG_REGION") or "DefaultRegion"
        tags, keys = properties.get("TAGS"), properties.get("KEYS")
        text = record_text(
            *("EndTransaction", current_ms(), region, self._dispatcher.group, message.topic),
            *(msg_id, tags, keys, address, COMMIT, message.transaction_id),
            *(STATES[state], from_check),
        )
        self._dispatcher.append(TraceRecord(text, keys_of((msg_id, keys))))

    def _address(self, queue: MessageQueue) -> str | None:
        return self._client.routes.address(self._client.namespace.wrap_queue(queue))
