"""JSON rows of commands whose recordings need an account or never end, at our broker."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Iterator

import pytest

from mqadmin import main
from mqadmin.catalogue import command_of, names
from mqadmin.report import Row, Stream
from mqclient import Admin as BlockingAdmin
from mqclient import Credentials, LitePullConsumer, Message, MessageQueue, Producer, Trace
from mqclient.admin import Admin
from mqserver import Standalone
from tests.acl.signing import ADMIN, home_with
from tests.admin.json_schema import RECORDED_SCHEMAS, check_rows

DEADLINE_S = 60.0
VARIANTS = {"lag_total"}
"""Schemas of rows that an option makes."""
ACL_LINES = """\
updateAclConfig -b {broker} -a newaccount -s 87654321 -t T1=PUB,T2=SUB -g G1=SUB -i DENY -u SUB
getAclConfig -b {broker}
deleteAclConfig -b {broker} -a newaccount
updateGlobalWhiteAddr -b {broker} -g 10.10.103.*,192.168.0.*
clusterAclConfigVersion -c DefaultCluster
""".splitlines()


@pytest.fixture(scope="module")
def closed_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """A broker that asks for accounts."""
    folder = tmp_path_factory.mktemp("closed")
    settings = {"aclEnable": "true", "rocketmqHome": str(home_with(folder / "home"))}
    with Standalone(folder / "store", settings=settings) as broker:
        yield broker


def rows_of(
    line: str, broker: Standalone, capsys: pytest.CaptureFixture[str], account: Credentials | None
) -> list[Row]:
    """The rows of a command that ends."""
    words = [*shlex.split(line), "-n", broker.namesrv, "--output", "jsonl"]
    assert main(words, lambda _given: Admin(broker.namesrv, credentials=account)) == 0
    return [json.loads(row) for row in capsys.readouterr().out.splitlines()]


async def first_row(line: str, broker: Standalone, wanted: Row) -> Row:
    """The first row of a command that never ends with these values."""
    name, *options = shlex.split(line)
    command = command_of(name)
    async with Admin(broker.namesrv) as admin:
        result = await command.run(admin, command.parse(options))
        assert isinstance(result, Stream)
        async for piece in result.pieces:
            if piece.row is not None and wanted.items() <= piece.row.items():
                return piece.row
    raise AssertionError("the command ended")


def check_first_row(line: str, broker: Standalone, wanted: Row) -> None:
    row = asyncio.run(asyncio.wait_for(first_row(line, broker, wanted), DEADLINE_S))
    check_rows(line.split()[0], [row])


@pytest.mark.parametrize("line", ACL_LINES)
def test_rows_about_accounts(
    line: str, closed_broker: Standalone, capsys: pytest.CaptureFixture[str]
) -> None:
    filled = line.format(broker=closed_broker.broker_address)
    rows = rows_of(filled, closed_broker, capsys, Credentials(*ADMIN))
    assert rows
    check_rows(line.split()[0], rows)


def test_rows_of_a_trace(mq_broker: Standalone, capsys: pytest.CaptureFixture[str]) -> None:
    topic, traces = mq_broker.topic(), mq_broker.topic()
    with Producer(mq_broker.namesrv, trace=Trace(traces)) as producer:
        sent = producer.send(Message(topic, b"traced", tags="TagA", keys="k"))
    mq_broker.wait_dispatched()
    line = f"queryMsgTraceById -i {sent.msg_id} -t {traces}"
    rows = rows_of(line, mq_broker, capsys, None)
    assert [row["topic"] for row in rows] == [topic]
    check_rows("queryMsgTraceById", rows)


def test_rows_of_cluster_rt(mq_broker: Standalone) -> None:
    check_first_row("clusterRT -a 2 -s 16 -i 1", mq_broker, {"brokerName": "broker-a"})


def test_rows_of_monitoring(mq_broker: Standalone) -> None:
    topic = mq_broker.topic(queues=1)
    group = f"group_of_{topic}"
    with Producer(mq_broker.namesrv) as producer:
        producer.send(Message(topic, b"behind"))
    with LitePullConsumer(group, mq_broker.namesrv) as consumer:
        consumer.subscribe(topic)
        consumer.wait_assigned()
        with BlockingAdmin(mq_broker.namesrv) as admin:
            admin.offsets.commit(group, MessageQueue(topic, "broker-a", 0), 0)
        check_first_row("startMonitoring", mq_broker, {"event": "undone", "topic": topic})


def test_every_command_has_a_schema() -> None:
    known = {path.stem.partition("-")[0] for path in RECORDED_SCHEMAS.rglob("*.json")}
    assert {name.replace(" ", "_") for name in names()} == known - VARIANTS
