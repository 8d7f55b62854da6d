"""Every process drops a price from its cache when any process changes it.

    mqadmin updateTopic -n 127.0.0.1:9876 -c DefaultCluster -t PriceChanges
    python examples/cache_invalidation.py --namesrv 127.0.0.1:9876

With model="broadcasting" each member of the group gets every message. A cache starts empty, so it
needs no message from before its start: it reads from "latest" and keeps no offsets. Give prices a
maximum age too: a thread that read the old price just before the message arrived may still cache
it.
"""

import argparse
import sys
import threading

from mqclient import Message, Producer, PushConsumer, ReceivedMessage

TOPIC = "PriceChanges"
database = {"tea": 3, "coffee": 4}  # in production, a server that is slower than a dict


def say(line: str) -> None:
    """Print a line with one write, so that lines of several threads do not mix."""
    sys.stdout.write(f"{line}\n")


class PriceCache:
    """A cache of prices. name: the cache's name in the output."""

    def __init__(self, name: str, namesrv: str | None) -> None:
        self.name = name
        self.dropped = threading.Event()
        self._prices: dict[str, int] = {}
        self.consumer = PushConsumer("price_caches", namesrv, model="broadcasting")
        self.consumer.on_message(TOPIC)(self._drop)

    def price(self, item: str) -> int:
        """The price of an item, from the cache or else from the database."""
        if item not in self._prices:
            self._prices[item] = database[item]
            say(f"{self.name} reads the price of {item}: {database[item]}")
        return self._prices[item]

    def _drop(self, message: ReceivedMessage) -> None:
        item = message.body.decode()
        self._prices.pop(item, None)
        say(f"{self.name} drops the price of {item}")
        self.dropped.set()


def main() -> None:
    """Change a price that two caches have."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--namesrv", help="NameServer host:port; default: NAMESRV_ADDR")
    arguments = parser.parse_args()
    caches = [PriceCache(name, arguments.namesrv) for name in ("cache 1", "cache 2")]
    with Producer(arguments.namesrv) as producer, caches[0].consumer, caches[1].consumer:
        for cache in caches:
            cache.consumer.wait_assigned()
            cache.price("tea")
        database["tea"] = 5  # first the database, then the message
        producer.send(Message(TOPIC, b"tea"))
        for cache in caches:
            cache.dropped.wait()
            assert cache.price("tea") == 5
    print("both caches have the new price")


if __name__ == "__main__":
    main()
