"""Failed payments are retried, then stored as dead letters, and replayed after the repair.

mqclient send Payments "12 EUR"
python examples/dead_letters.py --namesrv 127.0.0.1:9876 work --bank-is-down    # Ctrl-C ends
python examples/dead_letters.py --namesrv 127.0.0.1:9876 replay
python examples/dead_letters.py --namesrv 127.0.0.1:9876 work
"""

import argparse

from mqclient import (
    ConsumeContext,
    LitePullConsumer,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
)

GROUP = "payments"
DEAD_LETTERS = f"%DLQ%{GROUP}"


def work(namesrv: str | None, bank_is_down: bool) -> None:
    """Handle payments until Ctrl-C or SIGTERM."""

    def pay(messages: list[ReceivedMessage], context: ConsumeContext) -> None:
        for message in messages:
            payment, times = message.body.decode(), message.reconsume_times + 1
            if bank_is_down:
                context.delay_level = 1  # retry after 1 s; the default is 10 s, then 30 s, ...
                print(f"try {times} of {payment} failed", flush=True)
                raise ConnectionError("the bank is down")
            print(f"paid {payment}", flush=True)

    consumer = PushConsumer(GROUP, namesrv, consume_from="earliest", max_retries=2)
    consumer.subscribe("Payments", "*", pay)
    consumer.run()


def replay(namesrv: str | None) -> None:
    """Send every dead letter to its original topic again, and commit it."""
    with (
        Producer(namesrv) as producer,
        LitePullConsumer("payments_replay", namesrv, consume_from="earliest") as consumer,
    ):
        consumer.subscribe(DEAD_LETTERS)
        while batch := consumer.poll(timeout=5.0):
            for dead in batch:
                message = Message.from_received(dead)  # its topic is the original one
                producer.send(message)
                print(f"sent {dead.body.decode()} to {message.topic} again", flush=True)
            consumer.commit(batch)


def main() -> None:
    """Run the worker or the replay."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--namesrv", help="NameServer host:port; default: NAMESRV_ADDR")
    roles = parser.add_subparsers(dest="role", required=True)
    working = roles.add_parser("work")
    working.add_argument("--bank-is-down", action="store_true", help="every payment fails")
    roles.add_parser("replay")
    arguments = parser.parse_args()
    if arguments.role == "work":
        work(arguments.namesrv, arguments.bank_is_down)
    else:
        replay(arguments.namesrv)


if __name__ == "__main__":
    main()
