"""Sends reminders that arrive after a delay.

    python examples/reminders.py --namesrv 127.0.0.1:9876 5s=tea 1s=stretch

The broker keeps a delayed message until it is due, also across restarts. RocketMQ 4 has 18 delay
levels, numbered from 1. `DELAYS` lists the default levels; the broker's setting messageDelayLevel
can change them.
"""

import argparse
import threading
import time

from mqclient import Message, Producer, PushConsumer, ReceivedMessage

TOPIC = "Reminders"
DELAYS = [
    *("1s", "5s", "10s", "30s"),
    *(f"{minutes}m" for minutes in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30)),
    *("1h", "2h"),
]


def reminder(text: str) -> Message:
    """The message for "5s=tea"; ValueError if there is no such delay level."""
    delay, _, what = text.partition("=")
    if delay not in DELAYS or not what:
        raise ValueError(f"{text!r} is not DELAY=TEXT; the delays are {' '.join(DELAYS)}")
    return Message(TOPIC, what.encode(), delay_level=DELAYS.index(delay) + 1)


def main() -> None:
    """Send reminders, and print each when it arrives."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--namesrv", help="NameServer host:port; default: NAMESRV_ADDR")
    parser.add_argument("reminders", nargs="+", type=reminder, metavar="DELAY=TEXT")
    arguments = parser.parse_args()
    messages: list[Message] = arguments.reminders
    arrived = threading.Semaphore(0)
    consumer = PushConsumer("reminders", arguments.namesrv, consume_from="earliest")

    @consumer.on_message(TOPIC)
    def remind(message: ReceivedMessage) -> None:
        waited = time.time() - message.born_timestamp_ms / 1000
        print(f"after {waited:.1f} s: {message.body.decode()}", flush=True)
        arrived.release()

    with Producer(arguments.namesrv) as producer, consumer:
        for message in messages:
            producer.send(message)
        for _ in messages:
            arrived.acquire()


if __name__ == "__main__":
    main()
