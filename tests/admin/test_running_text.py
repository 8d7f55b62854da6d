"""What consumerStatus says about members: differing subscriptions, queues that do not go on."""

from __future__ import annotations

from pathlib import Path

import pytest

from mqadmin.commands.group.consumer_status import save
from mqadmin.running_text import has_same_subscriptions, problems, running_text
from mqcommon.message import MessageQueue
from mqcommon.wire.bodies.heartbeat import SubscriptionData
from mqcommon.wire.bodies.running import ConsumerRunningInfo, ConsumeStatus, ProcessQueueInfo

NOW = 1_795_247_654_906
QUEUE = MessageQueue("T", "a", 0)
ON_QUEUE = "1@2 MessageQueue [topic=T, brokerName=a, queueId=0]"


def member(
    *topics: str, started: int = NOW - 121_000, kind: str = "CONSUME_PASSIVELY"
) -> ConsumerRunningInfo:
    properties = {"PROP_CONSUME_TYPE": kind, "PROP_CONSUMER_START_TIMESTAMP": str(started)}
    return ConsumerRunningInfo(properties, [SubscriptionData(topic) for topic in topics])


@pytest.mark.parametrize(
    ("members", "same"),
    [
        ([member("T"), member("T")], True),
        ([member("T"), member("T", "U")], False),
        ([member("T", started=NOW - 119_000), member("U")], True),
        ([member("T", kind="CONSUME_ACTIVELY"), member("U")], True),
        ([member()], False),
    ],
    ids=["same", "different", "just started", "pull", "none"],
)
def test_members_should_have_the_same_subscriptions(
    members: list[ConsumerRunningInfo], same: bool
) -> None:
    by_client = {f"client{place}": one for place, one in enumerate(members)}
    assert has_same_subscriptions(by_client, NOW) is same


def with_queue(orderly: bool = False, **state: int | bool) -> ConsumerRunningInfo:
    info = member("T")
    info.properties["PROP_CONSUMEORDERLY"] = "true" if orderly else "false"
    info.mq_table = {QUEUE: ProcessQueueInfo(**state)}  # type: ignore[arg-type]
    return info


@pytest.mark.parametrize(
    ("info", "said"),
    [
        (with_queue(cached_msg_count=1, last_consume_timestamp=NOW - 60_000), []),
        (with_queue(last_consume_timestamp=NOW - 60_001), []),
        (
            with_queue(cached_msg_count=1, last_consume_timestamp=NOW - 60_001),
            [f"{ON_QUEUE} can't consume for a while, maybe blocked, 60001ms"],
        ),
        (
            with_queue(True, locked=False, last_lock_timestamp=NOW - 5),
            [f"{ON_QUEUE} can't lock for a while, 5ms"],
        ),
        (
            with_queue(True, locked=True, droped=True, try_unlock_times=3),
            [f"{ON_QUEUE} unlock 3 times, still failed"],
        ),
        (with_queue(True, locked=True, droped=True), []),
    ],
    ids=["busy", "idle", "blocked", "not locked", "not unlocked", "dropped"],
)
def test_queues_that_do_not_go_on_are_named(info: ConsumerRunningInfo, said: list[str]) -> None:
    assert problems("1@2", info, NOW) == said
    info.properties["PROP_CONSUME_TYPE"] = "CONSUME_ACTIVELY"
    assert problems("1@2", info, NOW) == []


def test_rates_and_stacks_are_shown() -> None:
    info = member("T")
    info.status_table = {"T": ConsumeStatus(0.125, 2.5, 3.0, 4.0, 0.005, 7)}
    info.jstack = "thread main\n"
    end = running_text(info).partition("#Consumer RT&TPS#\n")[2].splitlines()
    assert end[1] == (
        f"{'T':<32}  {'0.13':>14} {'2.50':>14} {'3.00':>14} {'4.00':>14} {'0.01':>18} {7:>25}"
    )
    assert end[-2:] == ["#Consumer jstack#", "thread main"]


@pytest.mark.parametrize(
    ("client_id", "name"),
    [("192.0.2.1@1#2", "192.0.2.1@1#2"), ("../../x", "..%2F..%2Fx"), ("..", "%2E%2E")],
)
def test_a_client_id_names_a_file_in_the_folder(
    client_id: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = save("text", NOW, client_id)
    assert path == Path(str(NOW), name)
    assert [one for one in tmp_path.rglob("*") if one.is_file()] == [tmp_path / path]
