"""The send path of one queue: its broker's address and the shared header of its messages."""

from collections.abc import Awaitable
from typing import Any

from mqclient.engine.client import Client
from mqclient.engine.request_template import FrameTemplate
from mqclient.errors import BrokerError, UnreachableError
from mqclient.producer.outgoing import Outgoing
from mqclient.producer.results import STATUS_OF_CODE, SendResult, read_send_reply
from mqclient.settings.producers import SendOptions
from mqcommon.message import MessageQueue
from mqcommon.names import AUTO_CREATE_TOPIC, REPLY_SUFFIX
from mqcommon.property_text import PAIR_END, Pair
from mqcommon.wire.codes import RequestCode
from mqcommon.wire.frame import Frame
from mqcommon.wire.reply_bounds import check_fields

__all__ = ["QueueSender"]

_REPLY = str(Pair("MSG_TYPE", "reply"))


class QueueSender:
    """Sends to one queue, one try per call. Replaced when the topic's route changes.

    Sending raises UnreachableError when the queue's broker has no master.
    """

    __slots__ = (
        "_batches",
        "_client",
        "_of_code",
        "_settings",
        "blocks",
        "queue",
        "shown",
        "singles",
    )

    def __init__(self, client: Client, settings: SendOptions, queue: MessageQueue) -> None:
        self._client = client
        self._settings = settings
        self.queue = queue
        self.shown = client.namespace.unwrap_queue(queue)
        """The queue as results name it, without the namespace."""
        self.singles: FrameTemplate | None = None
        """The template of messages that are no batch; None until `template_of` makes it."""
        self._batches: FrameTemplate | None = None
        self._of_code: dict[RequestCode, FrameTemplate] = {}
        """Templates of a reply topic, whose messages differ in their code."""
        self.blocks = client.compiled_transport() is not None
        """Whether `call`, and `post` of a template, can be used."""

    def _template(self, code: RequestCode) -> FrameTemplate:
        """Header V2 with its one-letter fields, in RocketMQ's order; see headers/send.py."""
        queue = self.queue
        address = self._client.routes.address(queue, only_this=True)
        if address is None:
            raise UnreachableError(
                f"broker {queue.broker_name!r} has no master for topic {queue.topic!r}; look: "
                f"mqadmin topicRoute -n {self._client.settings.servers[0]} -t {queue.topic}"
            )
        fields = (
            ("a", self._settings.group),
            ("b", queue.topic),
            ("c", AUTO_CREATE_TOPIC),
            ("d", str(self._settings.default_topic_queues)),
            ("e", str(queue.queue_id)),
            ("f", None),  # sys_flag
            ("g", None),  # born timestamp
            ("h", None),  # flag
            ("i", None),  # properties
            ("j", None),  # reconsume times
            ("k", "false"),
            ("l", None),  # max reconsume times
            ("m", "true" if code == RequestCode.SEND_BATCH_MESSAGE else "false"),
            ("n", queue.broker_name),
        )
        return FrameTemplate(self._client, address, code, fields, "sent")

    def template_of(self, outgoing: Outgoing) -> FrameTemplate:
        """The template of the request that sends a message."""
        if outgoing.batch:
            if self._batches is None:
                self._batches = self._template(RequestCode.SEND_BATCH_MESSAGE)
            return self._batches
        if self.queue.topic.endswith(REPLY_SUFFIX):
            return self._reply_template_of(outgoing)
        if self.singles is None:
            self.singles = self._template(RequestCode.SEND_MESSAGE_V2)
        return self.singles

    def _reply_template_of(self, outgoing: Outgoing) -> FrameTemplate:
        """On a reply topic, the broker relays replies instead of storing them."""
        is_reply = _REPLY in outgoing.properties.split(PAIR_END)
        code = RequestCode.SEND_REPLY_MESSAGE_V2 if is_reply else RequestCode.SEND_MESSAGE_V2
        if code not in self._of_code:
            self._of_code[code] = self._template(code)
        return self._of_code[code]

    def send(self, outgoing: Outgoing, timeout: float) -> Awaitable[Any]:
        """Send; await it for the answer, which `result` reads. timeout: seconds."""
        template = self._batches if outgoing.batch else self.singles
        if template is None:
            template = self.template_of(outgoing)
        return template.send(outgoing.values(), outgoing.body, timeout)

    def oneway(self, outgoing: Outgoing, timeout: float) -> Awaitable[None]:
        """Send without an answer; awaiting it ends when the bytes are written."""
        template = self.template_of(outgoing)
        return template.oneway(outgoing.values(), outgoing.body, timeout)

    def call(self, outgoing: Outgoing, timeout: float) -> Any:
        """Send from any thread and block until the answer arrives, which `result` reads."""
        template = self._batches if outgoing.batch else self.singles
        if template is None:
            template = self.template_of(outgoing)
        return template.call(outgoing.values(), outgoing.body, timeout)

    def explain(self, error: Exception) -> Exception:
        """The error to raise for a failed send; its cause is the given error, or it is the same."""
        template = self.singles or self._batches or next(iter(self._of_code.values()), None)
        explained = error if template is None else template.explain(error)
        if explained is not error:
            explained.__cause__ = error
        return explained

    def result(self, answer: Any, outgoing: Outgoing) -> SendResult:
        """Read an answer; raises BrokerError, and ProtocolError if a field is missing."""
        if not isinstance(answer, Frame):
            return SendResult(answer, outgoing.msg_id, self.shown)
        check_fields(answer, f"broker {self.queue.broker_name}")
        if answer.code not in STATUS_OF_CODE:
            raise BrokerError(answer.code, answer.remark, f"broker {self.queue.broker_name}")
        return read_send_reply(answer, self.shown, outgoing.msg_id)
