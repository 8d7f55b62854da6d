"""A handler of Python's logging that sends records to a topic."""

import functools
import json
import logging
import queue
import threading
from collections.abc import Iterator
from dataclasses import KW_ONLY
from datetime import UTC, datetime
from typing import Annotated, Any

from mqclient.blocking.producer import Producer
from mqclient.engine.process import process_id
from mqclient.errors import RocketMQError
from mqclient.settings.checks import check_sendable
from mqclient.settings.clients import Namesrv
from mqclient.settings.declare import (
    Option,
    by_value,
    declared,
    explained,
    made_of,
    narrowed,
    takes,
)
from mqclient.settings.producers import ProducerOptions, SendOptions
from mqcommon.message import Message

__all__ = ["JsonFormatter", "RocketMQHandler"]

log = logging.getLogger("mqclient.logging")
OWN_LOGGERS = ("mqclient", "mqcommon", "mqstore")
"""Records of these loggers are not sent: sending them would make more of them."""
BATCH_RECORDS = 100
BATCH_BYTES = 1 << 20
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """A record as one JSON object: time, level, logger, message, exception, `extra`'s fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Values that JSON does not have become text."""
        row: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "process": record.process,
            "thread": record.threadName,
        }
        if record.exc_info:
            row["exception"] = self.formatException(record.exc_info)
        row |= {name: value for name, value in vars(record).items() if name not in _STANDARD}
        return json.dumps(row, ensure_ascii=False, default=str)


def _level(_name: str, level: int | str) -> int | str:
    logging.Handler(level)  # refuses others
    return level


@declared
class HandlerOptions(SendOptions):
    """Options of a RocketMQHandler."""

    topic: Annotated[str, Option("topic of the records", read=by_value(check_sendable), kind="str")]
    namesrv: Namesrv = None
    _: KW_ONLY
    level: Annotated[int | str, Option("lowest level to send", read=_level, kind="int | str")] = (
        logging.NOTSET
    )
    records_max: Annotated[
        int, Option("most records that wait; the rest is dropped", "records", 1, 10_000_000)
    ] = 10_000
    close_timeout: Annotated[
        float,
        Option(
            "time that `flush` and `close` wait for the rest; logging closes its handlers at the "
            "end of the program",
            "s",
            0,
            1000,
        ),
    ] = 5.0


@explained
class RocketMQHandler(logging.Handler):
    """Sends log records to a topic, without making the program wait.

    A thread sends them in batches; the tag is the level's name. While they cannot be sent, up to
    `records_max` wait and the rest is dropped: `dropped` counts, and the logger `mqclient.logging`
    warns once. A record is JSON unless a formatter is set.

        logging.getLogger().addHandler(RocketMQHandler("AppLogs", "127.0.0.1:9876"))
    """

    @takes(HandlerOptions)
    def __init__(self, options: HandlerOptions) -> None:
        super().__init__(options.level)
        self.topic = options.topic
        self.dropped = 0
        """Records that were not sent."""
        self._counting = threading.Lock()
        self._close_timeout = options.close_timeout
        sending = narrowed(options, ProducerOptions)
        self._new_producer = functools.partial(made_of, Producer, sending)
        self._records_max = options.records_max
        self._sending: _Sending | None = None
        self._closed = False
        self.setFormatter(JsonFormatter())

    def handle(self, record: logging.LogRecord) -> bool:
        """Handle a record, unless the client itself logged it."""
        if record.name.partition(".")[0] in OWN_LOGGERS:
            return False
        return bool(super().handle(record))

    def emit(self, record: logging.LogRecord) -> None:
        """Put a record in the queue, or drop it when the queue is full."""
        try:
            message = Message(self.topic, self.format(record).encode(), tags=record.levelname)
        except Exception:
            self.handleError(record)
            return
        if self._closed:
            self._drop(1, "the handler is closed")
            return
        sending = self._sending
        if sending is None or sending.pid != process_id():  # the first record, or a forked child's
            sending = _Sending(self._new_producer(), self._records_max, self._drop)
            self._sending = sending
        if not sending.put(message):
            self._drop(1, f"{self._records_max} records wait to be sent")

    def flush(self) -> None:
        """Wait until the records so far are sent, `close_timeout` seconds at most."""
        if self._sending is not None:
            self._sending.flush(self._close_timeout)

    def close(self) -> None:
        """Send what waits, `close_timeout` seconds at most, and close the producer."""
        self._closed = True
        sending, self._sending = self._sending, None
        if sending is not None:
            sending.close(self._close_timeout)
        super().close()

    def _drop(self, count: int, why: str) -> None:
        with self._counting:
            first = not self.dropped
            self.dropped += count
        if first:
            log.warning(
                "log records for topic %s are dropped: %s; `dropped` of the handler counts them",
                self.topic,
                why,
            )


class _Sending:
    """The queue, and the thread that empties it."""

    def __init__(self, producer: Producer, records_max: int, drop: Any) -> None:
        self.pid = process_id()
        self._producer, self._drop = producer, drop
        self._queue: queue.Queue[Message | threading.Event | None] = queue.Queue(records_max)
        self._thread = threading.Thread(target=self._run, name="mqclient-logging", daemon=True)
        self._thread.start()

    def put(self, message: Message) -> bool:
        """Whether there was room."""
        try:
            self._queue.put_nowait(message)
        except queue.Full:
            return False
        return True

    def flush(self, timeout: float) -> None:
        """Wait until all that was put before is sent or dropped."""
        done = threading.Event()
        if self._tell(done, timeout):
            done.wait(timeout)

    def close(self, timeout: float) -> None:
        """End the thread when all is sent, or after `timeout` seconds."""
        if self._tell(None, timeout):
            self._thread.join(timeout)
        if self._thread.is_alive():
            self._drop(self._queue.qsize(), "they could not be sent before the close")

    def _tell(self, word: threading.Event | None, timeout: float) -> bool:
        if self.pid != process_id() or not self._thread.is_alive():
            return False
        try:
            self._queue.put(word, timeout=timeout)
        except queue.Full:
            return False
        return True

    def _run(self) -> None:
        with self._producer:
            for batch, word in self._batches():
                if batch:
                    self._send(batch)
                if isinstance(word, threading.Event):
                    word.set()

    def _batches(self) -> Iterator[tuple[list[Message], threading.Event | None]]:
        """Waiting messages, and the item put after them: an event to set, or the end."""
        while True:
            batch: list[Message] = []
            size = 0
            word: Message | threading.Event | None = self._queue.get()
            while isinstance(word, Message):
                batch.append(word)
                size += len(word.body)
                if len(batch) == BATCH_RECORDS or size >= BATCH_BYTES or self._queue.empty():
                    break
                word = self._queue.get()
            if word is None:
                yield batch, None
                return
            yield batch, word if isinstance(word, threading.Event) else None

    def _send(self, batch: list[Message]) -> None:
        try:
            self._producer.send(batch if len(batch) > 1 else batch[0])
        except (RocketMQError, ValueError) as error:  # ValueError: longer than a message may be
            if isinstance(error, ValueError) and len(batch) > 1:
                for message in batch:
                    self._send([message])
            else:
                self._drop(len(batch), str(error))
