"""A service that answers requests, and a client that sends them.

    python examples/request_reply.py --namesrv 127.0.0.1:9876 serve
    python examples/request_reply.py --namesrv 127.0.0.1:9876 ask EUR USD    # another terminal

Requests wait at the broker while no server runs; servers of one group share them. Replies go to the
client that sent the request, and are not stored.
"""

import argparse
import sys

from mqclient import ClientTimeout, Message, Producer, PushConsumer, ReceivedMessage, reply

TOPIC = "RateRequests"
RATES = {"EUR": "1.00", "USD": "1.08", "CHF": "0.95"}


def serve(namesrv: str | None) -> None:
    """Answer requests until Ctrl-C or SIGTERM."""
    with Producer(namesrv) as producer:
        consumer = PushConsumer("rates", namesrv, consume_from="earliest")

        @consumer.on_message(TOPIC)
        def answer(request: ReceivedMessage) -> None:
            currency = request.body.decode()
            producer.send(reply(request, RATES.get(currency, "unknown").encode()))
            print(f"answered {currency}", flush=True)

        print("waiting for requests; Ctrl-C ends", flush=True)
        consumer.run()


def ask(namesrv: str | None, currencies: list[str], timeout: float) -> None:
    """Print the rate of each currency. timeout: seconds to wait for each reply."""
    with Producer(namesrv) as producer:
        for currency in currencies:
            try:
                answer = producer.request(Message(TOPIC, currency.encode()), timeout=timeout)
            except ClientTimeout as error:
                sys.exit(f"{currency}: {error}")
            print(f"{currency}: {answer.body.decode()}")


def main() -> None:
    """Run the service or the client."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--namesrv", help="NameServer host:port; default: NAMESRV_ADDR")
    roles = parser.add_subparsers(dest="role", required=True)
    roles.add_parser("serve")
    asking = roles.add_parser("ask")
    asking.add_argument("currencies", nargs="+", metavar="CURRENCY")
    asking.add_argument("--timeout", type=float, default=10.0, help="seconds to wait; default 10")
    arguments = parser.parse_args()
    if arguments.role == "serve":
        serve(arguments.namesrv)
    else:
        ask(arguments.namesrv, arguments.currencies, arguments.timeout)


if __name__ == "__main__":
    main()
