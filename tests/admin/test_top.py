"""mqadmin top: rates and lags of two samples, their order, and the command at our broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from mqadmin import main, rates
from mqadmin.commands.broker import top
from mqadmin.commands.broker.top import COLUMNS
from mqadmin.rates import Sample, rows_between
from mqclient import Admin as BlockingAdmin
from mqclient import LitePullConsumer, Message, MessageQueue, Producer
from mqclient.admin import Admin
from mqclient.errors import UnreachableError
from mqserver import Standalone
from tests.admin.json_schema import check_rows
from tests.admin.test_admin import NAMESRV
from tests.admin.test_command_line import Terminal
from tests.admin.test_doctor import OneDown
from tests.waiting import until

A0, A1 = MessageQueue("T", "a", 0), MessageQueue("T", "a", 1)
ALONE = MessageQueue("U", "a", 0)


def samples(
    first: tuple[dict[MessageQueue, int], dict[MessageQueue, int]],
    second: tuple[dict[MessageQueue, int], dict[MessageQueue, int]],
) -> list[dict[str, Any]]:
    """The rows of two samples, two seconds apart, with one group g."""
    before, after = (
        Sample(at_s, ends, {"g": offsets})
        for at_s, (ends, offsets) in ((10.0, first), (12.0, second))
    )
    return [dict(row) for row in rows_between(before, after)]


def test_rates_are_messages_a_second_between_two_samples() -> None:
    rows = samples(
        ({A0: 100, A1: 50, ALONE: 5}, {A0: 80, A1: 50}),
        ({A0: 120, A1: 50, ALONE: 25}, {A0: 110, A1: 50}),
    )
    assert rows == [
        {"topic": "T", "group": "g", "inTps": 10.0, "outTps": 15.0, "lag": 10, "drainS": 2.0},
        {"topic": "U", "group": None, "inTps": 10.0, "outTps": None, "lag": None, "drainS": None},
    ]


@pytest.mark.parametrize(
    ("first", "second", "rates"),
    [
        (({}, {}), ({A0: 9}, {A0: 4}), (0.0, 0.0, 5)),
        (({A0: 9}, {A0: 9}), ({A0: 9}, {A0: 1}), (0.0, 0.0, 8)),
        (({A0: 9}, {A0: 9}), ({A0: 2}, {A0: 9}), (0.0, 0.0, 0)),
    ],
    ids=["a new queue", "a reset group", "a new topic of the name"],
)
def test_no_rate_or_lag_is_negative(
    first: tuple[dict[MessageQueue, int], dict[MessageQueue, int]],
    second: tuple[dict[MessageQueue, int], dict[MessageQueue, int]],
    rates: tuple[float, float, int],
) -> None:
    (row,) = samples(first, second)
    assert (row["inTps"], row["outTps"], row["lag"]) == rates


@pytest.mark.parametrize(
    ("field", "wanted"),
    [("lag", "hgi"), ("inTps", "ihg"), ("outTps", "ghi"), ("topic", "ghi"), ("group", "ghi")],
)
def test_rows_are_sorted_and_absent_values_come_last(field: str, wanted: str) -> None:
    def row(topic: str, *values: object) -> dict[str, Any]:
        return dict(zip(COLUMNS, (topic, *values, None), strict=True))

    rows = [row("h", "h", 2.0, 1.0, 9), row("i", None, 3.0, None, None), row("g", "g", 1.0, 2.0, 8)]
    assert "".join(one["topic"] for one in top._first(rows, field, 3)) == wanted
    assert len(top._first(rows, field, 2)) == 2


@pytest.fixture
def consumed(mq_broker: Standalone) -> Iterator[tuple[str, str]]:
    """A topic with 10 messages and a group at offset 4."""
    topic = mq_broker.topic(queues=1)
    group = f"group_of_{topic}"
    with Producer(mq_broker.namesrv) as producer:
        for number in range(10):
            producer.send(Message(topic, b"%d" % number))
    mq_broker.wait_dispatched()
    with LitePullConsumer(group, mq_broker.namesrv) as consumer:
        consumer.subscribe(topic)
        consumer.wait_assigned()
    with BlockingAdmin(mq_broker.namesrv) as admin:
        admin.offsets.commit(group, MessageQueue(topic, "broker-a", 0), 4)
    yield topic, group


def test_a_pipe_gets_the_rows_of_each_round(
    mq_broker: Standalone, consumed: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    topic, group = consumed
    words = ["top", "-n", mq_broker.namesrv, "--interval", "0.5", "--count", "2"]
    assert main([*words, "-g", group]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    check_rows("top", rows)
    assert [(row["topic"], row["group"], row["lag"]) for row in rows] == [(topic, group, 6)] * 2
    assert rows[0]["timestamp"] < rows[1]["timestamp"]
    assert main([*words[:-1], "1", "-t", topic, "--output", "table"]) == 0
    heading, _, line = capsys.readouterr().out.splitlines()
    assert heading.split() == list(COLUMNS)
    assert line.split() == [topic, group, "0.0", "0.0", "6"]


def test_a_topic_without_a_group_and_rows_that_are_left_out(
    mq_broker: Standalone, consumed: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    alone = mq_broker.topic()
    words = ["top", "-n", mq_broker.namesrv, "--interval", "0.5", "--count", "1"]
    assert main([*words, "-t", alone, "--output", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["topic"], row["group"], row["lag"]) == (alone, None, None)
    assert main([*words, "--rows", "1"]) == 0
    output = capsys.readouterr()
    assert len(output.out.splitlines()) == 1
    assert "more rows; show them with --rows" in output.err


def test_a_terminal_shows_a_table_that_fits(
    mq_broker: Standalone, consumed: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("LINES", "20")
    screen = Terminal(monkeypatch)
    words = ["top", "-n", mq_broker.namesrv, "--interval", "0.5", "--count", "1"]
    assert main([*words, "-g", consumed[1]]) == 0
    assert consumed[0] in screen.text
    assert "Ctrl-C ends" in screen.text
    assert screen.text.endswith("\x1b[?25h\x1b[?1049l"), "the terminal gets its old screen back"


def test_requests_about_topics_without_a_group_are_bounded(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rates, "QUESTIONS_MAX", 1)
    with Standalone() as own:  # topics of other tests would be asked about first
        made = {own.topic(), own.topic()}
        with BlockingAdmin(own.namesrv) as admin:
            assert until(lambda: made <= {*admin.topics.names()})
        words = ["top", "-n", own.namesrv, "--interval", "0.5", "--count", "1"]
        assert main([*words, "--output", "json"]) == 0
    output = capsys.readouterr()
    assert len([row for row in json.loads(output.out) if row["group"] is None]) == 1
    assert "topics without a group are not shown" in output.err


class Dying(OneDown):
    """The NameServer answers the first sample only."""

    def __init__(self) -> None:
        super().__init__(GET_ALL_TOPIC_LIST_FROM_NAMESERVER=b'{"topicList":[]}')
        self.questions = 0

    async def call(self, address: str, request: Any, timeout: float) -> Any:
        if address == NAMESRV:
            self.questions += 1
            if self.questions > 2:
                raise UnreachableError("the NameServer is down", address)
        return await super().call(address, request, timeout)


def test_servers_that_go_down_are_named_and_are_a_failure(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["top", "-n", NAMESRV, "--interval", "0.5", "--count", "1", "--output", "json"]
    down = OneDown(GET_ALL_TOPIC_LIST_FROM_NAMESERVER=b'{"topicList":[]}')
    assert main(words, lambda _given: Admin(NAMESRV, transport=down)) == 3
    output = capsys.readouterr()
    assert json.loads(output.out) == []
    assert "denied" in output.err
    assert main(words, lambda _given: Admin(NAMESRV, transport=Dying())) == 3
    assert "note: no NameServer answers" in capsys.readouterr().err
    assert main(["top", "-n", "127.0.0.1:1"]) == 3


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--sort", "size"], "--sort must be one of lag, in, out, topic, group"),
        (["--interval", "0.1"], "--interval must be at least 0.5 seconds, not '0.1'"),
        (["--interval", "x"], "--interval must be at least 0.5 seconds, not 'x'"),
        (["--count", "0"], "--count must be at least 1"),
        (["--rows", "-1"], "--rows must be at least 1"),
    ],
)
def test_wrong_options(
    words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["top", "-n", "127.0.0.1:1", *words]) == 2
    assert complaint in capsys.readouterr().err
