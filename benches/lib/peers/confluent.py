"""confluent-kafka: the blocking client of Kafka."""

import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer

from benches.lib.measured import (
    BODY,
    DEADLINE_SECONDS,
    LIST,
    ROUND_SECONDS,
    WINDOW,
    Backlog,
    Figures,
    Load,
    Measured,
    Spans,
    in_lots,
    lots,
    threaded,
)

TOPIC = "peer-sends"
BACKLOG_TOPIC = "peer-backlog"
LATENCY_TOPIC = "peer-latency"
POLL_SECONDS = 0.1


def fill(address: str, count: int) -> Figures:
    """Make the backlog that this client and aiokafka read."""
    return _produced(address, count, BACKLOG_TOPIC, math.inf)


def callbacks(address: str, count: int) -> Figures:
    """`produce` with a callback for each message."""
    return _produced(address, count, TOPIC)


def _produced(address: str, count: int, topic: str, seconds: float = ROUND_SECONDS) -> Figures:
    producer = _producer(address)
    measured, sent, answers = Measured(), 0, 0

    def on_delivery(error: object, _message: object) -> None:
        nonlocal answers
        assert error is None, error
        answers += 1

    _produce(producer, topic, BODY, on_delivery)
    producer.flush(DEADLINE_SECONDS)
    measured.begin()
    for lot in lots(count, seconds=seconds):
        for _ in lot:
            _produce(producer, topic, BODY, on_delivery)
        sent += len(lot)
        producer.poll(0)
    producer.flush(DEADLINE_SECONDS)
    assert answers == sent + 1, f"{answers} answers to {sent + 1} messages"
    return measured.end(sent)


def futures(address: str, count: int) -> Figures:
    """`produce` whose callback sets a future; the last 10,000 are waited for."""
    producer = _producer(address)
    measured, sent = Measured(), 0
    last: list[Future[Any]] = []
    _produce(producer, TOPIC, BODY, None)
    producer.flush(DEADLINE_SECONDS)
    measured.begin()
    for lot in lots(count):
        for _ in lot:
            last.append(_future(producer))
        sent += len(lot)
        del last[:-WINDOW]
        producer.poll(0)
    producer.flush(DEADLINE_SECONDS)
    for future in last:
        future.result(DEADLINE_SECONDS)
    return measured.end(sent)


def _future(producer: Producer) -> Future[Any]:
    future: Future[Any] = Future()

    def on_delivery(error: Any, message: object) -> None:
        if error is None:
            future.set_result(message)
        else:
            future.set_exception(KafkaException(error))

    _produce(producer, TOPIC, BODY, on_delivery)
    return future


def send_one(address: str, count: int) -> Figures:
    """`produce` and `flush`, one message at a time."""
    producer = _producer(address)
    return in_lots(lambda: _send(producer, TOPIC, BODY), count)


def in_threads(address: str, count: int) -> Figures:
    """64 threads that wait for the callback of their message; one more thread calls `poll`."""
    producer = _producer(address)
    ended = threading.Event()
    failed: list[object] = []

    def work(each: int) -> int:
        sent = 0
        answered = threading.Semaphore(0)

        def on_delivery(error: object, _message: object) -> None:
            if error is not None:
                failed.append(error)
            answered.release()

        for lot in lots(each, 8):
            for _ in lot:
                producer.produce(TOPIC, BODY, on_delivery=on_delivery)
                answered.acquire()
            sent += len(lot)
        return sent

    poller = _polling(producer, ended)
    try:
        figures = threaded(work, count)
    finally:
        ended.set()
        poller.join()
    assert not failed, failed[0]
    return figures


def handler(address: str, count: int) -> Figures:
    """`poll` for each message, and a plain function."""

    def handle(message: Any) -> None:
        len(message.value())

    consumer = _consumer(address, BACKLOG_TOPIC, "earliest")
    measured, done = Measured(), 0
    handle(_next(consumer))
    measured.begin()
    for lot in lots(count - 1):
        for _ in lot:
            handle(_next(consumer))
        done += len(lot)
    figures = measured.end(done)
    consumer.close()
    return figures


def lists(address: str, count: int) -> Figures:
    """`consume(500)`."""
    backlog = Backlog(count, ROUND_SECONDS)
    consumer = _consumer(address, BACKLOG_TOPIC, "earliest")
    while not backlog.done.is_set():
        messages = consumer.consume(LIST, POLL_SECONDS)
        for message in messages:
            len(message.value())
        backlog.take(len(messages))
    consumer.close()
    return backlog.figures


def latency(address: str, count: int) -> Figures:
    """From `produce` and `flush` to a thread that polls the consumer."""
    producer, ended, spans = _producer(address), threading.Event(), Spans()
    _send(producer, LATENCY_TOPIC, BODY)
    consumer = _consumer(address, LATENCY_TOPIC, "latest")
    while not consumer.assignment():
        consumer.poll(POLL_SECONDS)

    def read() -> None:
        while not ended.is_set():
            if (message := consumer.poll(POLL_SECONDS)) is not None:
                spans.add(message.value())

    reader = threading.Thread(target=read)
    reader.start()
    time.sleep(POLL_SECONDS)  # the consumer asks for the end of its queue: "latest" begins there
    try:
        return spans.measure(lambda body: _send(producer, LATENCY_TOPIC, body), count)
    finally:
        ended.set()
        reader.join()
        consumer.close()


def _producer(address: str) -> Producer:
    return Producer({"bootstrap.servers": address})


def _send(producer: Producer, topic: str, body: bytes) -> None:
    """Send a message and wait for its answer; `flush` does not wait for the linger time."""
    producer.produce(topic, body)
    producer.flush(DEADLINE_SECONDS)


def _produce(
    producer: Producer, topic: str, body: bytes, on_delivery: Callable[..., None] | None
) -> None:
    while True:
        try:
            return producer.produce(topic, body, on_delivery=on_delivery)
        except BufferError:  # the client's queue of 100,000 messages is full
            producer.poll(POLL_SECONDS)


def _polling(producer: Producer, ended: threading.Event) -> threading.Thread:
    def poll() -> None:
        while not ended.is_set():
            producer.poll(POLL_SECONDS)

    thread = threading.Thread(target=poll)
    thread.start()
    return thread


def _consumer(address: str, topic: str, start: str) -> Consumer:
    group = f"peers-{time.monotonic_ns()}"
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": group, "auto.offset.reset": start}
    )
    consumer.subscribe([topic])
    return consumer


def _next(consumer: Consumer) -> Any:
    message = consumer.poll(DEADLINE_SECONDS)
    assert message is not None and message.error() is None, message
    return message


CASES: dict[str, Load] = {
    "fill": fill,
    "callbacks": callbacks,
    "futures": futures,
    "send_one": send_one,
    "in_threads": in_threads,
    "handler": handler,
    "lists": lists,
    "latency": latency,
}
