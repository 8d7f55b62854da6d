"""mqadmin doctor: its checks on made-up answers, and the whole command at our broker."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mqadmin import main
from mqadmin.doctor import servers
from mqadmin.doctor.access import check_access, check_unanswered
from mqadmin.doctor.facts import BrokerFacts, Facts, Unanswered
from mqadmin.doctor.findings import SHOWN_MAX, Finding, text_of
from mqadmin.doctor.groups import check_groups
from mqadmin.doctor.replicas import MIB
from mqadmin.doctor.servers import check_servers
from mqadmin.doctor.topics import check_topics
from mqclient import Admin as BlockingAdmin
from mqclient import ConsumeResult, LitePullConsumer, Message, MessageQueue, Producer, PushConsumer
from mqclient.admin import Admin
from mqclient.errors import BrokerError, UnreachableError
from mqclient.settings.identity import Credentials
from mqcommon.wire import Frame
from mqcommon.wire.bodies.groups import (
    BrokerStatsItem,
    Connection,
    ConsumerConnection,
    GroupConfig,
    OffsetWrapper,
)
from mqcommon.wire.bodies.route import BrokerData, ClusterInfo
from mqcommon.wire.bodies.topics import TopicConfig, TopicOffset
from mqserver import Standalone
from mqserver.broker.replication.replication import Replication
from tests.acl.signing import ADMIN, PLAIN_ACL, home_with
from tests.admin.json_schema import check_rows
from tests.admin.test_admin import NAMESRV, TwoBrokers

NOW_MS = 1_795_247_654_906
HOUR_MS = 3_600_000
QUEUE = MessageQueue("T", "a", 0)
IDLE_HOURS = 24


def broker(**more: Any) -> BrokerFacts:
    """A healthy master."""
    given = {"cluster": "C", "name": "a", "broker_id": 0, "address": "10.0.0.1:10911", **more}
    return BrokerFacts(**given)


def facts(*brokers: BrokerFacts, **more: Any) -> Facts:
    view = ClusterInfo()
    for one in brokers:
        data = view.broker_addr_table.setdefault(one.name, BrokerData(one.name, one.cluster))
        data.broker_addrs[one.broker_id] = one.address
    more = {"namesrvs": {"10.0.0.9:9876": view}, "sample_s": 6.0, "now_ms": NOW_MS, **more}
    return Facts(brokers=list(brokers), **more)


def findings(known: Facts) -> list[tuple[str, str, float | None]]:
    """Severity, check and figure of everything that is found."""
    found = [
        *check_servers(known), *check_access(known), *check_topics(known, IDLE_HOURS),
        *check_groups(known, IDLE_HOURS), *check_unanswered(known),
    ]  # fmt: skip
    assert all(one.what and one.advice and one.subject for one in found)
    return [(one.severity, one.check, one.figure) for one in found]


def with_offsets(
    first: tuple[int, int], second: tuple[int, int], idle_ms: int, *, online: bool
) -> Facts:
    """Group g on broker a: broker offset and consumer offset, twice."""
    one = broker(
        groups={"g": GroupConfig("g")},
        first={"g": {QUEUE: OffsetWrapper(*first, NOW_MS - idle_ms)}},
        second={"g": {QUEUE: OffsetWrapper(*second, NOW_MS - idle_ms)}},
    )
    table: Any = {"T": None} if online else {}
    members = {"g": ConsumerConnection([Connection("c", "h:1")], table)} if online else {}
    return facts(one, members=members)


@pytest.mark.parametrize(
    ("runtime", "config", "wanted"),
    [
        ({}, {}, []),
        ({"commitLogDiskRatio": "0.74"}, {}, []),
        ({"commitLogDiskRatio": "0.76"}, {}, [("warning", "broker.disk", 76.0)]),
        ({"commitLogDiskRatio": "0.76"}, {"diskMaxUsedSpaceRatio": "85"}, []),
        ({"consumeQueueDiskRatio": "0.91"}, {}, [("error", "broker.disk", 91.0)]),
        ({"sendThreadPoolQueueHeadWaitTimeMills": "250"}, {}, [("warning", "broker.busy", 250.0)]),
        ({}, {"brokerPermission": "4"}, [("warning", "broker.permission", 4)]),
        ({}, {"brokerPermission": "6"}, []),
        ({}, {"brokerRole": "SYNC_MASTER"}, [("error", "broker.replica", None)]),
        ({}, {"aclEnable": "false"}, [("info", "acl.off", 1)]),
        ({"commitLogDiskRatio": "x"}, {"brokerPermission": "x"}, []),
    ],
)
def test_figures_of_a_broker(
    runtime: dict[str, str], config: dict[str, str], wanted: list[tuple[str, str, float | None]]
) -> None:
    assert findings(facts(broker(runtime=runtime, config=config))) == wanted


@pytest.mark.parametrize(
    ("ahead_ms", "wanted"),
    [
        (0, []),
        (900, []),
        (-1_900, []),
        (2_600, [("warning", "broker.clock", 2.5)]),
        (-3_000, [("warning", "broker.clock", 2.0)]),
        (90_100, [("error", "broker.clock", 90.0)]),
    ],
)
def test_the_clock_of_a_broker(ahead_ms: int, wanted: list[tuple[str, str, float | None]]) -> None:
    age_ms = (((1 * 24 + 2) * 60 + 3) * 60 + 4) * 1000
    runtime = {
        "bootTimestamp": str(NOW_MS + ahead_ms - age_ms),
        "runtime": "[ 1 days, 2 hours, 3 minutes, 4 seconds ]",
    }
    one = broker(runtime=runtime, asked_ms=NOW_MS, answered_ms=NOW_MS + 100)
    assert findings(facts(one)) == wanted


def test_servers_that_are_down_or_disagree() -> None:
    down = broker(name="b", address="10.0.0.2:10911", failure=UnreachableError("down", "h:1"))
    slave = broker(name="s", broker_id=1, address="10.0.0.3:10911")
    known = facts(broker(), down, slave)
    known.namesrvs["10.0.0.8:9876"] = ClusterInfo({"a": BrokerData("a", "C", {0: "x:1"})}, {})
    known.namesrvs["10.0.0.7:9876"] = UnreachableError("down", "10.0.0.7:9876")
    assert findings(known) == [
        ("warning", "namesrv.disagree", 2),
        ("error", "namesrv.unreachable", None),
        ("error", "broker.master", None),
        ("error", "broker.unreachable", None),
    ]


def test_a_broker_that_must_be_there() -> None:
    found = [*check_servers(facts(broker()), ["a", "gone"])]
    assert [(one.check, one.subject) for one in found] == [("broker.missing", "broker gone")]


def test_a_loopback_address_is_for_one_machine() -> None:
    known = facts(broker(address="127.0.0.1:10911"))
    assert findings(known) == [("warning", "broker.address", None)]
    known.namesrvs = {"localhost:9876": ClusterInfo({"a": BrokerData("a", "C", {0: "h:1"})}, {})}
    assert findings(known) == []


def test_mixed_versions() -> None:
    brokers = [
        broker(name=name, runtime={"brokerVersionDesc": version})
        for name, version in (("a", "V4_9_7"), ("b", "V4_9_7"), ("c", "V5_3_3"))
    ]
    assert findings(facts(*brokers)) == [("warning", "broker.version", 2)]


@pytest.mark.parametrize(
    ("copied_mib", "severity"), [(1000, ""), (990, ""), (900, "warning"), (700, "error"),
                                 (1100, "error")],
)  # fmt: skip
def test_replication_lag(copied_mib: int, severity: str) -> None:
    master = broker(runtime={"commitLogMaxOffset": str(1000 * MIB)})
    slave = broker(broker_id=1, runtime={"commitLogMaxOffset": str(copied_mib * MIB)})
    wanted = [(severity, "broker.replica", (1000 - copied_mib) * MIB)] if severity else []
    assert findings(facts(master, slave)) == wanted


@pytest.mark.parametrize(
    ("state", "lag_ms", "severity"),
    [("transfer", 0, ""), ("transfer", 29_900, ""), ("transfer", 30_000, "warning"),
     ("diverged", 300_000, "error"), ("verifying", HOUR_MS, "")],
)  # fmt: skip
def test_replication_lag_in_time(
    state: str, lag_ms: int, severity: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {"address": "10.0.0.2:5000", "state": state, "lag_bytes": 100, "lag_ms": lag_ms}
    wanted = [(severity, "broker.replica", lag_ms / 1000)] if severity else []
    replication = Replication.__new__(Replication)
    monkeypatch.setattr(replication, "slaves", list, raising=False)
    monkeypatch.setattr(replication, "slave_status", lambda: row)
    ours = broker(broker_id=1, address="10.0.0.2:10911", runtime=replication.figures())
    assert findings(facts(broker(), ours)) == wanted
    monkeypatch.setattr(replication, "slaves", lambda: [row])
    monkeypatch.setattr(replication, "slave_status", lambda: None)
    java = broker(broker_id=1, address="10.0.0.2:10911")
    assert findings(facts(broker(runtime=replication.figures()), java)) == wanted


def test_accounts() -> None:
    known = facts(broker(accounts=["rocketmq2"]), broker(name="b", is_open=True))
    assert findings(known) == [("error", "acl.default", None), ("warning", "acl.open", None)]


@pytest.mark.parametrize(
    ("config", "last_ms", "wanted"),
    [
        (TopicConfig("T"), NOW_MS, []),
        (TopicConfig("T"), -1, [("info", "topic.unused", 3)]),
        (TopicConfig("T"), NOW_MS - 48 * HOUR_MS, [("info", "topic.unused", 48.0)]),
        (TopicConfig("T", perm=4), NOW_MS, [("warning", "topic.permission", 4)]),
        (TopicConfig("T", read_queue_nums=4), NOW_MS, [("error", "topic.queues", 12)]),
        (TopicConfig("T", write_queue_nums=4), NOW_MS, []),
    ],
)
def test_topics(
    config: TopicConfig, last_ms: int, wanted: list[tuple[str, str, float | None]]
) -> None:
    one = broker(topics={"T": config}, extents={"T": {QUEUE: TopicOffset(2, 5, last_ms)}})
    assert findings(facts(one)) == wanted


def test_a_topic_that_a_broker_did_not_tell_is_not_unused() -> None:
    assert findings(facts(broker(topics={"T": TopicConfig("T")}))) == []


@pytest.mark.parametrize(
    ("first", "second", "idle_ms", "online", "wanted"),
    [
        ((9, 9), (9, 9), 0, True, []),
        ((9, 5), (9, 6), 0, True, []),
        ((9, 5), (9, 5), 0, True, [("warning", "group.stuck", 4)]),
        ((9, 5), (12, 5), 0, True, [("warning", "group.stuck", 7)]),
        ((9, 5), (12, 5), HOUR_MS, True, [("error", "group.stuck", 7)]),
        ((9, 9), (12, 9), HOUR_MS, True, []),
        ((9, 5), (9, 5), HOUR_MS, False, []),
        ((9, 5), (9, 5), 25 * HOUR_MS, False, [("warning", "group.orphan", 4)]),
        ((9, 5), (9, 5), NOW_MS, False, [("warning", "group.orphan", 4)]),
        ((9, 9), (9, 9), 25 * HOUR_MS, False, [("info", "group.orphan", None)]),
    ],
)
def test_offsets_of_groups(
    first: tuple[int, int], second: tuple[int, int], idle_ms: int, online: bool,
    wanted: list[tuple[str, str, float | None]],
) -> None:  # fmt: skip
    known = with_offsets(first, second, idle_ms, online=online)
    assert findings(known) == wanted


def test_groups_without_subscription_offset_or_configuration() -> None:
    nothing: Any = ConsumerConnection([Connection("c", "h:1")], {})
    one = broker(
        groups={
            "idle": GroupConfig("idle"),
            "mute": GroupConfig("mute"),
            "off": GroupConfig("off", consume_enable=False),
        },
        topics={"%RETRY%left": TopicConfig("%RETRY%left")},
    )
    assert findings(facts(one, members={"mute": nothing})) == [
        ("info", "group.unused", None),
        ("warning", "group.subscription", 1),
        ("warning", "group.disabled", None),
        ("info", "group.unused", None),
        ("info", "group.unknown", None),
    ]


def test_a_group_of_unknown_members_is_no_orphan() -> None:
    known = with_offsets((9, 5), (9, 5), 25 * HOUR_MS, online=False)
    denied = BrokerError(16, "denied", "h:1")
    known.unanswered = [Unanswered("members of group g", "broker a", denied)]
    assert findings(known) == [("warning", "doctor.unanswered", 1)]


def test_retries_and_dead_letters() -> None:
    def counted(returned: int, got: int) -> tuple[BrokerStatsItem, BrokerStatsItem]:
        return BrokerStatsItem(sum=returned), BrokerStatsItem(sum=got)

    known = facts(
        broker(),
        returned={("T", "g"): counted(30, 40), ("T", "h"): counted(10, 400),
                  ("T", "i"): counted(9, 9)},
        dead_letters={"g": 7, "h": 0},
    )  # fmt: skip
    assert findings(known) == [
        ("warning", "group.retries", 30), ("warning", "group.dead_letters", 7),
    ]  # fmt: skip


def test_a_flood_of_findings_is_cut_in_the_text() -> None:
    many = [Finding("info", "topic.unused", f"topic {n}", "unused", "look") for n in range(30)]
    lines = text_of(many, "30 topics").splitlines()
    assert len(lines) == 2 * SHOWN_MAX + 2
    assert lines[-2].strip() == "and 10 more of topic.unused; --output jsonl shows all"
    assert lines[-1] == "0 errors, 0 warnings, 30 notes; checked 30 topics"


def diagnosed(
    capsys: pytest.CaptureFixture[str], code: int, *words: str
) -> list[tuple[str, str, str]]:
    """Severity, check and subject of the command's findings."""
    assert main(["doctor", *words, "--output", "json"]) == code
    rows = json.loads(capsys.readouterr().out)
    check_rows("doctor", rows)
    return [(row["severity"], row["check"], row["subject"]) for row in rows]


@pytest.fixture
def any_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk of this machine does not count."""
    monkeypatch.setattr(servers, "_disk", lambda _broker: ())


@pytest.fixture(scope="module")
def sample_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """A broker whose access file has an account of RocketMQ's sample."""
    folder = tmp_path_factory.mktemp("sample")
    home = home_with(folder / "home")
    sample = "- accessKey: rocketmq2\n  secretKey: 12345678\n  admin: true\n"
    (home / "conf" / "plain_acl.yml").write_text(PLAIN_ACL + sample)
    settings = {"aclEnable": "true", "rocketmqHome": str(home)}
    with Standalone(folder / "store", settings=settings) as broker:
        yield broker


@pytest.mark.usefixtures("any_disk")
def test_a_default_password_is_an_error(
    sample_broker: Standalone, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    tools = tmp_path / "tools.yml"
    tools.write_text(f"accessKey: {ADMIN[0]}\nsecretKey: {ADMIN[1]}\n")
    words = ("-n", sample_broker.namesrv, "--sample", "0", "--credentials", str(tools))
    found = diagnosed(capsys, 1, *words)
    where = f"broker broker-a at {sample_broker.broker_address}"
    assert found == [("error", "acl.default", where)]


@pytest.mark.usefixtures("any_disk")
def test_without_an_account_the_unanswered_questions_are_named(
    sample_broker: Standalone, capsys: pytest.CaptureFixture[str]
) -> None:
    found = diagnosed(capsys, 1, "-n", sample_broker.namesrv, "--sample", "0")
    assert {(severity, check) for severity, check, _ in found} == {("error", "doctor.unanswered")}


@pytest.mark.usefixtures("any_disk")
def test_a_group_that_hangs_is_found(
    mq_broker: Standalone, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = mq_broker.topic(queues=1)
    group = f"group_of_{topic}"
    hangs, go_on = threading.Event(), threading.Event()

    def hang(*_: object) -> ConsumeResult:
        hangs.set()
        go_on.wait(60)
        return ConsumeResult.SUCCESS

    with (
        Producer(mq_broker.namesrv) as producer,
        PushConsumer(group, mq_broker.namesrv, consume_from="earliest") as consumer,
    ):
        producer.send(Message(topic, b"hangs"))
        consumer.subscribe(topic, "*", hang)
        assert hangs.wait(60)
        with BlockingAdmin(mq_broker.namesrv) as admin:
            admin.offsets.commit(group, MessageQueue(topic, "broker-a", 0), 0)
        found = diagnosed(capsys, 0, "-n", mq_broker.namesrv, "--sample", "1")
        go_on.set()
    assert ("warning", "group.stuck", f"group {group}") in found


@pytest.mark.usefixtures("any_disk")
def test_an_orphan_and_an_unused_topic_are_found(
    mq_broker: Standalone, capsys: pytest.CaptureFixture[str]
) -> None:
    unused, topic = mq_broker.topic(), mq_broker.topic(queues=1)
    group = f"group_of_{topic}"
    with Producer(mq_broker.namesrv) as producer:
        producer.send(Message(topic, b"waits"))
    mq_broker.wait_dispatched()
    with LitePullConsumer(group, mq_broker.namesrv) as consumer:
        consumer.subscribe(topic)
        consumer.wait_assigned()
    with BlockingAdmin(mq_broker.namesrv) as admin:
        admin.offsets.commit(group, MessageQueue(topic, "broker-a", 0), 0)
    words = ("-n", mq_broker.namesrv, "--sample", "0", "--expect", "broker-a")
    found = diagnosed(capsys, 0, *words)
    assert ("info", "topic.unused", f"topic {unused}") in found
    assert ("warning", "group.orphan", f"group {group}") in found
    assert main(["doctor", *words, "--output", "table"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("0 errors, ")
    assert "checked 1 NameServer, 1 broker, " in last


class OneDown(TwoBrokers):
    """Broker a answers nothing useful, broker b is down."""

    async def call(self, address: str, request: Frame, timeout: float) -> Frame:
        if address not in (NAMESRV, "10.0.0.1:10911"):
            raise UnreachableError(f"nothing listens at {address}", address)
        if address == NAMESRV:
            return await super().call(address, request, timeout)
        return request.reply(16, "denied")


def test_a_broker_that_is_down_is_a_finding(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["doctor", "-n", NAMESRV, "--output", "json", "--sample", "0"]
    assert main(words, lambda _given: Admin(NAMESRV, transport=OneDown())) == 1
    rows = json.loads(capsys.readouterr().out)
    check_rows("doctor", rows)
    assert [row["subject"] for row in rows] == [
        "broker b at 10.0.0.2:10911",
        "slave b at 10.0.0.3:10911",
        "broker a at 10.0.0.1:10911",
    ]
    assert {row["severity"] for row in rows} == {"error"}
    assert "nothing listens at 10.0.0.2:10911" in rows[0]["finding"]
    (unanswered,) = [row for row in rows if row["check"] == "doctor.unanswered"]
    assert unanswered["figure"] == 5


def test_without_a_namesrv_there_is_nothing_to_judge(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["doctor", "-n", "127.0.0.1:1"]) == 3
    assert "127.0.0.1:1" in capsys.readouterr().err


def test_wrong_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "-n", "127.0.0.1:1", "--sample", "-1"]) == 2
    assert "must not be negative" in capsys.readouterr().err


def test_an_admin_of_another_account_shares_the_options() -> None:
    with BlockingAdmin("10.0.0.1:9876", timeout=7) as admin:
        other = admin.with_account(Credentials("a", "b"))
        assert other._options.timeout == 7
        assert other._options.credentials == Credentials("a", "b")
        other.close()


def test_the_page_lists_every_check() -> None:
    root = Path(__file__).parent.parent.parent
    code = "".join(path.read_text() for path in (root / "mqadmin" / "doctor").glob("*.py"))
    named = re.findall(r'"((?:namesrv|broker|acl|topic|group|doctor)\.[a-z_]+)"', code)
    page = (root / "docs" / "operations" / "doctor.md").read_text()
    assert set(named) == set(re.findall(r"^\| `([a-z_.]+)`", page, re.MULTILINE))
