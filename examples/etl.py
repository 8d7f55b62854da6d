"""Load a topic into a table of SQLite, each message exactly once.

    python examples/etl.py --namesrv 127.0.0.1:9876 --database clicks.db    # run it repeatedly

The rows and the next positions are written in one database transaction. The next run seeks to these
positions, so a crash loses nothing and repeats nothing. The offsets committed at the broker after
each write only show the job's progress (mqadmin consumerProgress -g clicks_etl).
"""

import argparse
import sqlite3
from contextlib import closing

from mqclient import LitePullConsumer, MessageQueue, ReceivedMessage

TOPIC = "Clicks"
TABLES = """
create table if not exists clicks (msg_id text, born_ms integer, tag text, body text);
create table if not exists positions (queue text primary key, position integer);
"""


def queue_of(message: ReceivedMessage) -> MessageQueue:
    """The queue that a message was read from."""
    return MessageQueue(message.topic, message.broker_name, message.queue_id)


def seek(consumer: LitePullConsumer, database: sqlite3.Connection) -> None:
    """Seek every queue to its position in the table."""
    queues = consumer.queues(TOPIC)
    consumer.assign(queues)
    for queue in queues:
        row = database.execute("select position from positions where queue = ?", [str(queue)])
        found = row.fetchone()
        if found is None:
            consumer.seek_to_begin(queue)
        else:
            consumer.seek(queue, found[0])


def load(consumer: LitePullConsumer, database: sqlite3.Connection) -> int:
    """Write messages until none has arrived for 2 seconds; returns their number."""
    count = 0
    while batch := consumer.poll(max_messages=1000, timeout=2.0):
        rows = [(m.msg_id, m.born_timestamp_ms, m.tags, m.body.decode()) for m in batch]
        positions = [(str(queue_of(m)), m.queue_offset + 1) for m in batch]
        with database:
            database.executemany("insert into clicks values (?, ?, ?, ?)", rows)
            database.executemany("insert or replace into positions values (?, ?)", positions)
        consumer.commit(batch)
        count += len(batch)
    return count


def main() -> None:
    """Load the new messages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--namesrv", help="NameServer host:port; default: NAMESRV_ADDR")
    parser.add_argument("--database", default="clicks.db")
    arguments = parser.parse_args()
    with (
        closing(sqlite3.connect(arguments.database)) as database,
        LitePullConsumer("clicks_etl", arguments.namesrv, commit_interval=None) as consumer,
    ):
        database.executescript(TABLES)
        seek(consumer, database)
        count = load(consumer, database)
        (total,) = database.execute("select count(*) from clicks").fetchone()
    print(f"loaded {count} messages; the table has {total} rows")


if __name__ == "__main__":
    main()
