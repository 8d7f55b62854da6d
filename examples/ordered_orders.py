"""The steps of each order are handled in order, while different orders are handled in parallel.

    mqadmin updateTopic -n 127.0.0.1:9876 -c DefaultCluster -t OrderSteps -r 8 -w 8
    python examples/ordered_orders.py --namesrv 127.0.0.1:9876

RocketMQ keeps the order within a queue. Therefore the order's id is the order key of its messages,
which selects their queue, and the consumer is orderly: one thread at a time handles a queue, and a
failed step is retried before the next one.
"""

import argparse
import threading
from collections import defaultdict

from mqclient import Message, Producer, PushConsumer, ReceivedMessage

TOPIC = "OrderSteps"
STEPS = ("created", "paid", "shipped")
ORDERS = [f"order-{number}" for number in range(1, 6)]


def send(namesrv: str | None) -> None:
    """Send every step of all orders, interleaved."""
    with Producer(namesrv) as producer:
        for step in STEPS:
            for order in ORDERS:
                producer.send(Message(TOPIC, step.encode(), keys=order), order_key=order)


def main() -> None:
    """Send the steps, and consume them until every order is shipped."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--namesrv", help="NameServer host:port; default: NAMESRV_ADDR")
    arguments = parser.parse_args()
    seen: defaultdict[str, list[str]] = defaultdict(list)
    lock, all_shipped = threading.Lock(), threading.Event()
    consumer = PushConsumer("shipping", arguments.namesrv, orderly=True, consume_from="earliest")

    @consumer.on_message(TOPIC)
    def handle(message: ReceivedMessage) -> None:
        order, step = message.keys[0], message.body.decode()
        with lock:  # handlers of different queues run in parallel
            seen[order].append(step)
            print(f"{order} is {step}", flush=True)
            if all(len(seen[each]) >= len(STEPS) for each in ORDERS):
                all_shipped.set()

    with consumer:
        send(arguments.namesrv)
        all_shipped.wait()
    assert all(tuple(seen[order]) == STEPS for order in ORDERS), seen
    print("every order was created, paid and shipped, in this order")


if __name__ == "__main__":
    main()
