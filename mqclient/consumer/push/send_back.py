"""Sends a message whose handler failed back to the broker, which delivers it again.

Rules: RocketMQ 4.9 `DefaultMQPushConsumerImpl.sendMessageBack`, and for orderly consumption
`ConsumeMessageOrderlyService.sendMessageBack`.
"""

import logging

from mqclient.engine.client import Client
from mqclient.errors import RocketMQError, UnreachableError
from mqclient.producer.outgoing import prepare
from mqclient.producer.sender import Sender
from mqclient.settings.consumers import PushOptions
from mqclient.settings.producers import SendOptions
from mqclient.settings.values import Retry
from mqcommon.message import DELAY_LEVEL_MAX, Message, ReceivedMessage, encode_properties
from mqcommon.names import INNER_PRODUCER_GROUP, dead_letter_topic, retry_topic
from mqcommon.property_text import PROPERTIES_BYTES_MAX
from mqcommon.wire.calls import message_calls
from mqcommon.wire.codes import MessageSysFlag
from mqcommon.wire.headers.send import ConsumerSendMsgBackRequestHeader

__all__ = ["SendBack", "original_topic"]

log = logging.getLogger(__name__)
SEND_BACK_TIMEOUT = 5.0
ORDERLY_RETRIES_DEFAULT = (1 << 31) - 1
COPY_BYTES_MAX = PROPERTIES_BYTES_MAX - 256
"""Bytes of a copy's properties; its broker adds the place where it waits for its redelivery."""
_COMPRESSION = 0x700 | int(MessageSysFlag.COMPRESSED)
_KEPT = {"RETRY_TOPIC", "ORIGIN_MESSAGE_ID", "RECONSUME_TIME", "MAX_RECONSUME_TIMES", "UNIQ_KEY"}
"""Properties that a copy needs."""


def original_topic(message: ReceivedMessage) -> str:
    """The original topic of a redelivered message."""
    return message.properties.get("RETRY_TOPIC") or message.topic


class SendBack:
    """Sends messages back to their brokers, or else publishes a copy for the group."""

    def __init__(self, client: Client, settings: PushOptions) -> None:
        self._client = client
        self._group = settings.group
        default = ORDERLY_RETRIES_DEFAULT if settings.orderly else None
        self._retries_max = default if settings.max_retries is None else settings.max_retries
        """None: the broker knows the group's retryMaxTimes."""
        sending = SendOptions(
            group=INNER_PRODUCER_GROUP,
            retry=Retry(max_retries=2),
            compression=None,
            body_bytes_max=1 << 30,
        )
        self._sender = Sender(client, sending)

    def is_last(self, message: ReceivedMessage, delay_level: int) -> bool:
        """Whether a message that is sent back goes to the dead-letter queue."""
        limit = self._retries_max
        return delay_level < 0 or (limit is not None and message.reconsume_times >= limit)

    def fate(self, messages: list[ReceivedMessage], delay_level: int) -> str:
        """The fate of messages that are sent back, as the end of a log line."""
        dead = sum(self.is_last(message, delay_level) for message in messages)
        queue = f"the dead-letter queue {dead_letter_topic(self._group)}"
        if dead == len(messages):
            return f"it goes to {queue}" if dead == 1 else f"they go to {queue}"
        again = "it will" if len(messages) == 1 else "they will"
        limit = ", up to the group's retryMaxTimes" if self._retries_max is None else ""
        some = f", {dead} of them go to {queue}" if dead else ""
        return f"{again} be delivered again{limit}{some}"

    async def give_back(self, message: ReceivedMessage, delay_level: int) -> bool:
        """Send a message back for later redelivery; True if a broker took it.

        delay_level: 0 lets the broker choose, -1 goes to the dead-letter topic.
        """
        try:
            await self._to_its_broker(message, delay_level)
            return True
        except RocketMQError as error:
            text = "message %s could not be sent back: %s"
            self._client.outages.failed(message.broker_name, text, message.msg_id, error)
        times = message.reconsume_times
        return await self._publish(message, times + 1, delay_level=3 + times)

    async def send_to_dlq(self, message: ReceivedMessage) -> bool:
        """Publish a message that failed too often, for the dead-letter queue; True if stored.

        The broker sees from its number of failures where it belongs. Unlike RocketMQ's, the copy
        is not delayed.
        """
        return await self._publish(message, message.reconsume_times, delay_level=0)

    async def _publish(self, message: ReceivedMessage, times: int, delay_level: int) -> bool:
        try:
            outgoing = prepare(self._copy(message, times, delay_level), self._sender.settings)
            outgoing.sys_flag = message.sys_flag & _COMPRESSION
            await self._sender.send_anywhere(outgoing, SEND_BACK_TIMEOUT)
            return True
        except (RocketMQError, ValueError) as error:
            log.warning("a copy of message %s could not be sent: %s", message.msg_id, error)
            return False

    async def _to_its_broker(self, message: ReceivedMessage, delay_level: int) -> None:
        addresses = self._client.routes.brokers().get(message.broker_name, {})
        address = addresses.get(0)
        if address is None:
            raise UnreachableError(f"broker {message.broker_name!r} has no master")
        header = ConsumerSendMsgBackRequestHeader(
            offset=message.commit_log_offset,
            group=self._group,
            delay_level=delay_level,
            origin_msg_id=message.msg_id,
            origin_topic=self._client.namespace.wrap(message.topic),
            max_reconsume_times=self._retries_max,
            broker_name=message.broker_name,
        )
        await self._client.invoke(address, message_calls.send_back(header), SEND_BACK_TIMEOUT)

    def _copy(self, message: ReceivedMessage, times: int, delay_level: int) -> Message:
        """The same message for the retry topic, with the properties the broker would have set.

        One that has no room for them goes to the dead-letter queue, without its largest ones.
        """
        copy = Message(retry_topic(self._group), message.stored_body, flag=message.flag)
        copy.properties = {
            **message.properties,
            "RETRY_TOPIC": self._client.namespace.wrap(original_topic(message)),
            "ORIGIN_MESSAGE_ID": message.properties.get("ORIGIN_MESSAGE_ID", message.msg_id),
            "RECONSUME_TIME": str(times),
        }
        copy.properties.pop("MAX_RECONSUME_TIMES", None)  # a copied copy has its sender's limit
        if self._retries_max is not None:
            copy.properties["MAX_RECONSUME_TIMES"] = str(self._retries_max)
        copy.delay_level = min(delay_level, DELAY_LEVEL_MAX)
        for name in ("TRAN_MSG", "MIN_OFFSET", "MAX_OFFSET", "CONSUME_START_TIME"):
            copy.properties.pop(name, None)
        left_out = _leave_out(copy.properties)
        if left_out:
            copy.properties["MAX_RECONSUME_TIMES"] = str(times)
            copy.delay_level = 0
            log.error(
                "message %s goes to the dead-letter queue %s without its properties %s: "
                "they leave no room for the properties of a retry",
                message.msg_id,
                dead_letter_topic(self._group),
                ", ".join(left_out),
            )
        return copy


def _leave_out(properties: dict[str, str]) -> list[str]:
    """Remove the largest properties until the others fit into a copy; returns their names."""
    sizes = {name: len(name.encode()) + len(value.encode()) for name, value in properties.items()}
    optional = sorted(sizes.keys() - _KEPT, key=lambda name: sizes[name])
    left_out = []
    while optional and len(encode_properties(properties)) > COPY_BYTES_MAX:
        left_out.append(optional.pop())
        del properties[left_out[-1]]
    return left_out
