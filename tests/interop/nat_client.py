"""Our client as a program of its own: sends ten messages and reads them. Run by `test_nat.py`.

Arguments: NameServer, topic, group, address map ("" for none). Prints the messages in order.
"""

from __future__ import annotations

import sys
import threading

from mqclient import Connection, Message, Producer, PushConsumer
from mqclient.settings.checks import read_address_map


def main(namesrv: str, topic: str, group: str, map_text: str) -> None:
    connection = Connection(address_map=read_address_map(map_text))
    bodies: set[str] = set()
    whole = threading.Event()

    def handle(messages: list[object], _context: object) -> None:
        bodies.update(message.body.decode() for message in messages)  # type: ignore[attr-defined]
        if len(bodies) >= 10:
            whole.set()

    with Producer(namesrv, connection=connection) as producer:
        for number in range(10):
            producer.send(Message(topic, f"ours {number}".encode()), timeout=60.0)
    consumer = PushConsumer(group, namesrv, consume_from="earliest", connection=connection)
    with consumer:
        consumer.subscribe(topic, "*", handle)
        whole.wait(90.0)
    print(*sorted(bodies), sep="\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
