"""Stores orders in SQLite and announces them by messages: both happen, or neither does.

    python examples/outbox.py --namesrv 127.0.0.1:9876 order-1 order-2
    python examples/outbox.py --crash order-3     # dies after the database commit
    python examples/outbox.py --wait              # answers the broker's check of order-3

The broker first stores the message as a half message, which consumers do not see. The database
commit decides its fate. If the process dies before it reports the result, the broker asks another
process of the producer group, which looks the order up in the table (by default after 6 seconds,
then every minute).
"""

import argparse
import os
import sqlite3
import threading
from contextlib import closing

from mqclient import Message, ReceivedMessage, TransactionProducer, TransactionState

TOPIC = "OrdersPlaced"
checked = threading.Event()


def database(path: str) -> sqlite3.Connection:
    """Open the table of orders; each thread needs its own connection."""
    connection = sqlite3.connect(path)
    connection.execute("create table if not exists orders (id text primary key)")
    return connection


def main() -> None:
    """Place orders, or wait for a transaction check of the broker."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--namesrv", help="NameServer host:port; default: NAMESRV_ADDR")
    parser.add_argument("--database", default="orders.db")
    parser.add_argument("--crash", action="store_true", help="exit after the database commit")
    parser.add_argument("--wait", action="store_true", help="wait for a check of the broker")
    parser.add_argument("orders", nargs="*")
    arguments = parser.parse_args()

    def was_saved(message: ReceivedMessage) -> TransactionState:
        order = message.keys[0]
        with closing(database(arguments.database)) as saved:
            found = saved.execute("select 1 from orders where id = ?", [order]).fetchone()
        state = TransactionState.COMMIT if found else TransactionState.ROLLBACK
        print(f"the broker asked for {order}: {state.value}", flush=True)
        checked.set()
        return state

    with (
        closing(database(arguments.database)) as saved,
        TransactionProducer("order_service", arguments.namesrv, check=was_saved) as producer,
    ):
        for order in arguments.orders:
            message = Message(TOPIC, f"{order} was placed".encode(), keys=order)
            with producer.transaction(message) as transaction:
                with saved:  # commits, or rolls back after an exception
                    saved.execute("insert into orders values (?)", [order])
                if arguments.crash:
                    print(f"{order} is in the database; the process dies", flush=True)
                    os._exit(1)
                transaction.commit()
            print(f"{order} is in the database, and its message is sent")
        if arguments.wait:
            checked.wait()


if __name__ == "__main__":
    main()
