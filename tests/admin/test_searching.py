"""messages find, export and import at our broker."""

from __future__ import annotations

import json
import re
import shlex
import zlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mqadmin import main
from mqclient import Admin, Message, Producer
from mqclient.admin import Admin as AsyncAdmin
from mqclient.admin import search_plan
from mqclient.errors import UnreachableError
from mqcommon.message import MessageQueue
from mqcommon.wire.bodies.topics import TopicConfig
from mqserver import Standalone
from tests.admin.json_schema import check_rows
from tests.admin.test_read_queue_counts import lowered_topic
from tests.waiting import until

ORDERS = 40
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(mq_broker: Standalone, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command at our broker: exit code, output, errors."""

    def run_one(line: str) -> tuple[int, str, str]:
        code = main([*shlex.split(line), "-n", mq_broker.namesrv])
        return code, *capsys.readouterr()

    return run_one


@pytest.fixture
def found(run: Run) -> Callable[[str], list[int]]:
    """The numbers of the orders that a search finds."""

    def numbers(line: str) -> list[int]:
        code, out, err = run(f"messages find {line}")
        assert code == 0, err
        rows = [json.loads(row) for row in out.splitlines()]
        check_rows("messages find", rows)
        return sorted(json.loads(row["body"])["order"] for row in rows)

    return numbers


@pytest.fixture(scope="module")
def orders(mq_broker: Standalone) -> str:
    """A topic of two queues with 40 orders."""
    topic = mq_broker.topic(queues=2)
    with Producer(mq_broker.namesrv) as producer:
        for number in range(ORDERS):
            body = {"order": number, "items": [{"price": number * 10}]}
            producer.send(
                Message(
                    topic,
                    json.dumps(body).encode(),
                    tags="Even" if number % 2 == 0 else "Odd",
                    keys=[f"order-{number}", f"user-{number % 5}"],
                )
            )
    mq_broker.wait_dispatched()
    return topic


@pytest.mark.parametrize(
    ("condition", "numbers"),
    [
        ("", list(range(ORDERS))),
        ("-k '^order-1[0-2]$'", [10, 11, 12]),
        ("-k user-3 -s Even", [8, 18, 28, 38]),
        ("-s 'Even || Odd' --body '\"order\": 7,'", [7]),
        ("--json '@.order > 37'", [38, 39]),
        ("--json '$.items[?@.price == 50]'", [5]),
        ("--json '@.order < 9' -k user-1", [1, 6]),
        ("-b -1h --count 40", list(range(ORDERS))),
        ("-e -1h", []),
    ],
)
def test_messages_that_meet_every_condition_are_found(
    orders: str, found: Callable[[str], list[int]], condition: str, numbers: list[int]
) -> None:
    assert found(f"-t {orders} {condition}") == numbers


def test_a_time_range_has_its_begin_and_not_its_end(
    mq_broker: Standalone, orders: str, found: Callable[[str], list[int]]
) -> None:
    with Admin(mq_broker.namesrv) as admin:
        times = sorted(message.store_timestamp_ms for message in admin.messages.find(orders))
    begin, end = times[10], times[30]
    expected = sum(begin <= time < end for time in times)
    assert len(found(f"-t {orders} -b {begin} -e {end}")) == expected


def test_a_search_in_queues_and_after_a_place(
    orders: str, found: Callable[[str], list[int]]
) -> None:
    first = found(f"-t {orders} -q broker-a:0")
    second = found(f"-t {orders} -q broker-a:1")
    assert len(first) == len(second) == ORDERS / 2
    assert sorted(first + second) == list(range(ORDERS))
    assert found(f"-t {orders} --from broker-a:0:20") == second
    assert found(f"-t {orders} --from broker-a:1:15") == second[15:]


def test_a_search_in_what_a_group_has_not_read(
    mq_broker: Standalone, orders: str, found: Callable[[str], list[int]]
) -> None:
    group = f"group_of_{orders}"
    with Admin(mq_broker.namesrv) as admin:
        for at in (0, 1):
            admin.offsets.commit(group, MessageQueue(orders, "broker-a", at), 10 + at)
    assert len(found(f"-t {orders} -g {group}")) == ORDERS - 21


def test_a_table_is_written_row_by_row(orders: str, run: Run) -> None:
    code, out, _ = run(f"messages find -t {orders} -k order-17 --output table")
    title, _, row = out.splitlines()
    assert code == 0
    assert title.split() == [
        *("storeTimestamp", "brokerName", "queueId", "queueOffset", "tags", "keys", "body")
    ]
    assert re.match(
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}  broker-a +[01] +\d+  Odd +order-17", row
    )


def test_both_faces_of_admin_find_the_same(mq_broker: Standalone, orders: str) -> None:
    import asyncio

    async def ask() -> list[str]:
        async with AsyncAdmin(mq_broker.namesrv) as admin:
            search = await admin.messages.find(orders, tags="Odd", count=3)
            return [message.msg_id async for message in search]

    with Admin(mq_broker.namesrv) as admin:
        search = admin.messages.find(orders, tags="Odd", count=3)
        assert [message.msg_id for message in search] == asyncio.run(ask())
        assert (search.found, search.total) == (3, ORDERS)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("-t {t} -k '('", '"(" is not a regular expression: unclosed group'),
        ("-t {t} --json 'order == 1'", '"order == 1" is not JSONPath (RFC 9535)'),
        ("-t {t} -b soon", "'soon' is not a time"),
        ("-t {t} -q broker-a:7", "has no queue broker-a:7 to read; it has broker-a:0, broker-a:1"),
        ("-t {t} --from broker-a:1", "'broker-a:1' is not BROKER:ID:OFFSET"),
        ("-t {t} --count 0", "--count must be at least 1, not 0"),
    ],
)
def test_a_wrong_condition_is_a_usage_error(orders: str, run: Run, options: str, text: str) -> None:
    code, out, err = run("messages find " + options.format(t=orders))
    assert (code, out) == (2, "")
    assert text in err


def test_a_group_without_an_offset_is_an_error(orders: str, run: Run) -> None:
    code, _, err = run(f"messages find -t {orders} -g nobody_reads")
    assert code == 1
    assert "group 'nobody_reads' has no committed offset in topic" in err


def test_queues_above_the_read_count_are_told(mq_broker: Standalone, run: Run) -> None:
    code, out, err = run(f"messages find -t {lowered_topic(mq_broker)} --output json")
    assert code == 1
    assert len(json.loads(out)) == 6
    assert "note: broker-a:3: the queue is above the topic's number of read queues" in err
    assert "2 messages cannot be read" in err


def test_bodies_that_are_not_json_are_counted(mq_broker: Standalone, run: Run) -> None:
    topic = mq_broker.topic(queues=1)
    with Producer(mq_broker.namesrv) as producer:
        for body in (b"text", b'{"a": 1}', b"\xff"):
            producer.send(Message(topic, body))
    mq_broker.wait_dispatched()
    code, out, err = run(f"messages find -t {topic} --json '$.a'")
    assert code == 0
    assert len(out.splitlines()) == 1
    assert "note: 2 bodies are not JSON, so --json left them out" in err


@pytest.fixture
def damaged(tmp_path: Path) -> Iterator[Standalone]:
    """A broker whose topic Damaged has 50 messages, of which number 20 is damaged."""
    with Standalone(tmp_path) as mq, Producer(mq.namesrv) as producer:
        mq.topic("Damaged", queues=1)
        for at in range(50):
            producer.send(Message("Damaged", b"body of number %d." % at))
        mq.wait_dispatched()
        (log, *_) = sorted((tmp_path / "commitlog").iterdir())
        with log.open("r+b") as file:
            file.seek(log.read_bytes().index(b"body of number 20."))
            file.write(b"X")
        yield mq


@pytest.mark.parametrize("command", ["find", "export"])
def test_a_damaged_message_is_told_and_the_others_are_found(
    damaged: Standalone, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["messages", command, "-t", "Damaged", "-n", damaged.namesrv])
    out, err = capsys.readouterr()
    rows = [json.loads(line)["queueOffset"] for line in out.splitlines()]
    assert rows == [at for at in range(50) if at != 20]
    assert "note: broker-a:0: the message at offset 20 is damaged or lost" in err
    assert code == 1
    assert "1 messages cannot be read, as the notes say" in err


def test_a_broker_that_stops_is_named_with_the_way_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_plan, "RETRY_TIMEOUT_S", 0.2)
    monkeypatch.setattr(search_plan, "WAITING_BYTES", 1 << 12)
    with Standalone(tmp_path) as mq, Producer(mq.namesrv) as producer:
        mq.topic("Away", queues=1)
        for _ in range(30):
            producer.send([Message("Away", b"x" * 1000) for _ in range(100)])
        mq.wait_dispatched()
        address = mq.broker_address
        admin = Admin(mq.namesrv)
        admin.start()
        search = admin.messages.find("Away")
        messages = iter(search)
        next(messages)
    with pytest.raises(UnreachableError, match=address):
        list(messages)
    admin.close()
    assert search.place is not None
    assert 0 < search.place.offset == search.searched < search.total


def exported(run: Run, line: str, path: Path) -> list[dict[str, Any]]:
    code, out, _ = run(f"messages export {line}")
    assert code == 0
    with path.open("a") as file:
        file.write(out)
    rows = [json.loads(row) for row in out.splitlines()]
    check_rows("messages export", rows)
    return rows


def test_an_export_goes_on_where_it_stopped(orders: str, run: Run, tmp_path: Path) -> None:
    all_rows = exported(run, f"-t {orders}", tmp_path / "all.jsonl")
    parts = tmp_path / "parts.jsonl"
    first = exported(run, f"-t {orders} --count 25", parts)
    last = first[-1]
    exported(run, f"-t {orders} --from broker-a:{last['queueId']}:{last['queueOffset'] + 1}", parts)
    assert parts.read_text() == (tmp_path / "all.jsonl").read_text()
    assert len(all_rows) == ORDERS


def test_exported_messages_come_back(mq_broker: Standalone, run: Run, tmp_path: Path) -> None:
    source, target = mq_broker.topic(queues=2), mq_broker.topic(queues=2)
    with Producer(mq_broker.namesrv) as producer:
        producer.send(
            Message(source, b"\xff\0", tags="T", keys=["k1", "k2"], properties={"colour": "red"})
        )
        producer.send(Message(source, zlib.compress(b"z") + b"long" * 2000, tags="U"))
    mq_broker.wait_dispatched()
    file = tmp_path / "messages.jsonl"
    before = exported(run, f"-t {source}", file)
    code, out, _ = run(f"messages import -f {file} -t {target} --keep-queue --yes --output json")
    assert code == 0
    check_rows("messages import", json.loads(out))
    assert json.loads(out)[0]["sent"] == 2
    mq_broker.wait_dispatched()
    after = exported(run, f"-t {target}", tmp_path / "after.jsonl")
    same = ("queueId", "msgId", "tags", "keys", "bornTimestamp", "body", "flag")
    assert [[row[name] for name in same] for row in after] == [
        [row[name] for name in same] for row in before
    ]
    assert [row["properties"].get("colour") for row in after if row["tags"] == "T"] == ["red"]


def test_an_import_checks_its_file_first(orders: str, run: Run, tmp_path: Path) -> None:
    file = tmp_path / "orders.jsonl"
    exported(run, f"-t {orders} --count 3", file)
    code, out, _ = run(f"messages import -f {file} --dry-run")
    assert (code, json.loads(out)["read"], json.loads(out)["sent"]) == (0, 3, 0)
    code, _, err = run(f"messages import -f {file}")
    assert code == 2
    assert "changes stored data: confirm it with --yes" in err
    lines = file.read_text().splitlines()
    file.write_text("\n".join([lines[0], lines[1][:-9], lines[2]]))
    code, _, err = run(f"messages import -f {file} --dry-run")
    assert code == 2
    assert f"{file}, line 2: not JSON" in err
    code, _, err = run(f"messages import -f {tmp_path / 'none.jsonl'} --dry-run")
    assert (code, "none.jsonl: No such file" in err) == (1, True)


def test_an_export_has_one_form(orders: str, run: Run) -> None:
    code, _, err = run(f"messages export -t {orders} --output csv")
    assert code == 2
    assert "messages export writes lines of JSON only" in err


def test_a_text_is_found_in_long_bodies(mq_broker: Standalone, run: Run) -> None:
    topic = mq_broker.topic(queues=1)
    with Producer(mq_broker.namesrv) as producer:
        for at in range(20):
            producer.send(Message(topic, b"x" * 2_000 + b"customer-%d " % at + b"y" * 2_000))
    mq_broker.wait_dispatched()
    for _ in range(4):  # the text must be aligned wherever Python puts the conditions
        code, out, _ = run(f"messages find -t {topic} --body 'customer-17 '")
        assert (code, len(out.splitlines())) == (0, 1)


def test_problems_are_told_when_there_is_nothing_to_search(mq_broker: Standalone) -> None:
    topic = lowered_topic(mq_broker)
    with Admin(mq_broker.namesrv) as admin:
        search = admin.messages.find(topic, begin=datetime.now(UTC) + timedelta(hours=1))
        assert list(search) == []
        assert [(problem.queue.queue_id, problem.count) for problem in search.problems] == [(3, 2)]


def test_queues_above_the_write_count_are_searched(mq_broker: Standalone) -> None:
    topic = mq_broker.topic(queues=2)
    with Producer(mq_broker.namesrv) as producer, Admin(mq_broker.namesrv) as admin:
        for queue in producer.queues(topic):
            producer.send(Message(topic, b"x"), queue=queue)
        mq_broker.wait_dispatched()
        admin.topics.update(
            TopicConfig(topic, read_queue_nums=2, write_queue_nums=1),
            broker=mq_broker.broker_address,
        )
        assert until(lambda: admin.topics.route(topic).queue_datas[0].write_queue_nums == 1)
        assert len(list(admin.messages.find(topic))) == 2
