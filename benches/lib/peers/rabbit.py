"""pika: the blocking client of RabbitMQ, with publisher confirms and a durable queue."""

import threading
from typing import Any

import pika

from benches.lib.measured import (
    BODY,
    ROUND_SECONDS,
    THREADS,
    Backlog,
    Figures,
    Load,
    Spans,
    in_lots,
    lots,
    threaded,
)

QUEUE = "sends"
BACKLOG_QUEUE = "backlog"
LATENCY_QUEUE = "latency"
BACKLOG_MAX = 50_000
"""A read message leaves its queue, so each round fills it again; more would take longer than to
read it."""


def send_one(address: str, count: int) -> Figures:
    """`basic_publish` with a confirm, one at a time."""
    with _connection(address) as connection:
        channel = _channel(connection, QUEUE)
        channel.queue_purge(QUEUE)
        return in_lots(lambda: channel.basic_publish("", QUEUE, BODY), count)


def in_threads(address: str, count: int) -> Figures:
    """64 threads, each with its connection: the client's connections are of one thread."""
    connections = [_connection(address) for _ in range(THREADS)]
    channels = [_channel(connection, QUEUE) for connection in connections]
    channels[0].queue_purge(QUEUE)
    free = list(channels)

    def work(each: int) -> int:
        channel, sent = free.pop(), 0
        for lot in lots(each, 8):
            for _ in lot:
                channel.basic_publish("", QUEUE, BODY)
            sent += len(lot)
        return sent

    figures = threaded(work, count, len(channels))
    for connection in connections:
        connection.close()
    return figures


def handler(address: str, count: int) -> Figures:
    """`basic_consume` with a plain function that acknowledges each message."""
    count = top_up(address, count)
    backlog = Backlog(count, ROUND_SECONDS)

    def handle(channel: Any, method: Any, _properties: object, body: bytes) -> None:
        if backlog.done.is_set():
            return
        len(body)
        channel.basic_ack(method.delivery_tag)
        backlog.take(1)
        if backlog.done.is_set():
            channel.stop_consuming()

    with _connection(address) as connection:
        channel = _channel(connection, BACKLOG_QUEUE)
        channel.basic_consume(BACKLOG_QUEUE, handle)
        channel.start_consuming()
    return backlog.figures


def latency(address: str, count: int) -> Figures:
    """From `basic_publish` with a confirm to a consumer with its own thread and connection."""
    spans = Spans()

    def handle(channel: Any, method: Any, _properties: object, body: bytes) -> None:
        spans.add(body)
        channel.basic_ack(method.delivery_tag)

    with _connection(address) as sending, _connection(address) as reading:
        sends, reads = _channel(sending, LATENCY_QUEUE), _channel(reading, LATENCY_QUEUE)
        sends.queue_purge(LATENCY_QUEUE)
        reads.basic_consume(LATENCY_QUEUE, handle)
        reader = threading.Thread(target=reads.start_consuming)
        reader.start()
        try:
            return spans.measure(lambda body: sends.basic_publish("", LATENCY_QUEUE, body), count)
        finally:
            reading.add_callback_threadsafe(reads.stop_consuming)
            reader.join()


def top_up(address: str, count: int) -> int:
    """Fill the backlog to `count` messages, BACKLOG_MAX at most; returns their number."""
    count = min(count, BACKLOG_MAX)
    with _connection(address) as connection:
        channel = connection.channel()
        there = channel.queue_declare(BACKLOG_QUEUE, durable=True).method.message_count
        for _ in range(count - there):
            channel.basic_publish("", BACKLOG_QUEUE, BODY)
        channel.confirm_delivery()
        channel.basic_publish("", BACKLOG_QUEUE, BODY)  # once confirmed, the others are there too
    return count


def _connection(address: str) -> Any:
    host, port = address.split(":")
    return pika.BlockingConnection(pika.ConnectionParameters(host, int(port)))


def _channel(connection: Any, queue: str) -> Any:
    channel = connection.channel()
    channel.queue_declare(queue, durable=True)
    channel.confirm_delivery()
    return channel


CASES: dict[str, Load] = {case.__name__: case for case in (send_one, in_threads, handler, latency)}
