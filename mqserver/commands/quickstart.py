"""RocketMQ's own quick start: ten messages sent, stored, consumed and printed."""

from __future__ import annotations

import errno
import threading
from collections.abc import Sequence

from mqclient import ConsumeContext, Message, Producer, PushConsumer, ReceivedMessage
from mqserver.commands.command_runtime import fail, say
from mqserver.embedded.standalone import Standalone

TOPIC = "TopicTest"
TAG = "TagA"
COUNT = 10
CONSUME_TIMEOUT_S = 10.0


def quickstart(free_ports: bool = False) -> None:
    """Start both servers on a temporary store, send ten messages, consume them, stop."""
    both = Standalone().start() if free_ports else _started()
    try:
        say(f"NameServer {both.namesrv}, broker {both.broker_address}, store {both.data}")
        _send(both.namesrv)
        missing = _consume(both.namesrv)
    finally:
        both.stop()
    if missing:
        fail(f"{missing} of {COUNT} messages did not arrive within {CONSUME_TIMEOUT_S:.0f} s")
    say("Done: ten messages sent and consumed; the temporary store is removed.")


def _started() -> Standalone:
    """Start on RocketMQ's usual ports, or on free ports if those are taken."""
    usual = Standalone(namesrv_port=9876, port=10911)
    try:
        return usual.start()
    except OSError as error:
        usual.stop()
        if error.errno != errno.EADDRINUSE:
            raise
        say("RocketMQ's usual ports are taken; using free ports.")
        return Standalone().start()


def _send(namesrv: str) -> None:
    with Producer(namesrv, group="quickstart_producer", queue_index_start=0) as producer:
        for index in range(COUNT):
            body = f"Hello RocketMQ {index}".encode()
            say(str(producer.send(Message(TOPIC, body, tags=TAG))))


def _consume(namesrv: str) -> int:
    """Consume and print; returns how many messages are missing."""
    done = threading.Event()
    seen: list[str] = []

    def handle(messages: Sequence[ReceivedMessage], _context: ConsumeContext) -> None:
        for message in messages:
            say(f"{threading.current_thread().name} Receive New Messages: [{message}]")
            seen.append(message.msg_id)
        if len(seen) >= COUNT:
            done.set()

    with PushConsumer("quickstart_consumer", namesrv, consume_from="earliest") as consumer:
        consumer.subscribe(TOPIC, "*", handle)
        done.wait(CONSUME_TIMEOUT_S)
    return COUNT - len(set(seen))
