"""A master and its slave: copied messages and state, what the slave serves, and its promotion."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mqclient import Admin, LitePullConsumer, Message, Producer, ReceivedMessage, SendStatus
from mqcommon.wire.bodies.groups import GroupConfig
from mqcommon.wire.bodies.heartbeat import SubscriptionData
from mqcommon.wire.codes import RequestCode as Code
from mqcommon.wire.frame import Frame
from mqserver import Standalone
from mqserver.broker.broker import Broker
from mqserver.broker.replication import slave as slave_module
from mqserver.config.loaded import SettingsError
from mqserver.embedded.in_process import InProcessServers, pair_broker
from mqserver.embedded.raw_client import Probe
from tests.waiting import answer_of, until

FAST = {"haSendHeartbeatInterval": "100", "haHousekeepingInterval": "2000"}


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Standalone]:
    """A master that acknowledges alone, and a slave that copies its state often."""
    monkeypatch.setattr(slave_module, "PERIOD_S", 0.1)
    with Standalone(tmp_path / "store", slaves=1, settings=FAST) as running:
        yield running


def brokers(running: Standalone) -> tuple[Broker, Broker]:
    """The master and its slave."""
    servers = running.servers
    assert isinstance(servers, InProcessServers) and servers.server is not None
    return servers.server, servers.slaves[0]


def is_level(running: Standalone) -> bool:
    """Whether the slave has all of the master's log; both have it in their queues too."""
    master, slave = (broker.context.store for broker in brokers(running))
    ends = master.max_physical_offset(), slave.max_physical_offset()
    behind = [store.runtime()["dispatchBehindBytes"] for store in (master, slave)]
    return ends[0] == ends[1] and behind == ["0", "0"]


def send(running: Standalone, topic: str, count: int, first: int = 0) -> list[bytes]:
    bodies = [b"%d" % number for number in range(first, first + count)]
    with Producer(running.namesrv) as producer:
        for body in bodies:
            result = producer.send(Message(topic, body, keys="k" + body.decode(), tags="T"))
            assert result.status is SendStatus.SEND_OK
    return bodies


def log_of(folder: Path, end: int) -> bytes:
    files = sorted((folder / "commitlog").iterdir())
    return b"".join(file.read_bytes() for file in files)[: end - int(files[0].name)]


def slave_folder(running: Standalone) -> Path:
    return running.data.with_name(f"{running.data.name}-slave-1")


def test_a_slave_has_the_log_the_queues_and_the_keys(pair: Standalone) -> None:
    topic = pair.topic()
    bodies = send(pair, topic, 200)
    assert until(lambda: is_level(pair))
    master, slave = (broker.context.store for broker in brokers(pair))
    end = master.max_physical_offset()
    assert log_of(slave_folder(pair), end) == log_of(pair.data, end)
    for queue_id in range(4):
        assert slave.max_offset(topic, queue_id) == master.max_offset(topic, queue_id)
        count = master.max_offset(topic, queue_id)
        assert slave.entries(topic, queue_id, 0, count) == master.entries(topic, queue_id, 0, count)
    assert until(lambda: slave.query(topic, "k7").body)
    assert len(bodies) == 200


def test_a_slave_has_topics_groups_offsets_and_delays(pair: Standalone) -> None:
    topic = pair.topic()
    send(pair, topic, 20)
    with Admin(pair.namesrv) as admin:
        admin.groups.update(GroupConfig("G", retry_max_times=3), broker=pair.broker_address)
    master, slave = (broker.context for broker in brokers(pair))
    master.store.commit("G", topic, 0, 3)
    assert until(lambda: slave.store.committed("G", topic, 0) == 3)
    assert until(lambda: slave.groups.get("G") == master.groups.get("G"))
    assert slave.topics.wrapper() == master.topics.wrapper()
    master.store.commit("G", topic, 0, 1)  # as a reset does
    assert until(lambda: slave.store.committed("G", topic, 0) == 1)
    saved = slave_folder(pair) / "config" / "delayOffset.json"
    assert until(saved.exists)


def test_what_the_master_deleted_is_gone_on_the_slave_too(pair: Standalone) -> None:
    topic = pair.topic(queues=1)
    send(pair, topic, 20)
    assert until(lambda: is_level(pair))
    master, slave = (broker.context for broker in brokers(pair))
    assert until(lambda: slave.topics.get(topic) is not None)
    with Admin(pair.namesrv) as admin:
        admin.topics.delete(topic)
    assert until(lambda: slave.topics.get(topic) is None)
    assert until(lambda: slave.store.min_offset(topic, 0) == 20)
    assert pair.topic(topic, queues=1) == topic
    send(pair, topic, 5)
    assert until(lambda: slave.store.max_offset(topic, 0) == 25)
    assert slave.store.min_offset(topic, 0) == master.store.min_offset(topic, 0) == 20


def test_a_slave_has_the_filters_of_its_master(pair: Standalone) -> None:
    topic = pair.topic(queues=1)
    master, slave = (broker.context for broker in brokers(pair))
    by_number = SubscriptionData(topic, "a > 1", expression_type="SQL92")
    master.filters.follow("G", [by_number])
    assert until(lambda: b"a > 1" in slave.filters.render())


ADMIN = "accounts:\n- accessKey: administrator\n  secretKey: '12345678'\n  admin: true\n"


def test_a_slave_signs_and_copies_the_access_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slave_module, "PERIOD_S", 0.1)
    homes = []
    for name in ("master", "slave"):
        conf = tmp_path / name / "conf"
        conf.mkdir(parents=True)
        (conf / "tools.yml").write_text("accessKey: administrator\nsecretKey: '12345678'\n")
        homes.append(conf.parent)
    (homes[0] / "conf" / "plain_acl.yml").write_text(ADMIN)
    (homes[0] / "conf" / "acl").mkdir()
    more = ADMIN.replace("administrator", "somebody")
    (homes[0] / "conf" / "acl" / "more.yml").write_text(more)
    master, slave = (
        {
            **FAST, "aclEnable": "true", "haCopyAcl": "true", "listenPort": "0",
            "fastPortEnable": "false", "bindAddress": "127.0.0.1", "rocketmqHome": str(home),
            "storePathRootDir": str(home / "store"),
        }
        for home in homes
    )  # fmt: skip
    slave |= {"brokerRole": "SLAVE", "brokerId": "1"}
    namesrv = {"listenPort": "0", "kvConfigPath": str(tmp_path / "kv.json")}
    servers = InProcessServers(namesrv, master, [slave])
    servers.start()
    try:
        assert servers.server is not None
        rules = servers.server.context.acl
        copied = servers.slaves[0].context.acl
        assert rules is not None and copied is not None
        assert until(lambda: copied.content() == rules.content())
        assert sorted(copied.content()) == ["", "more.yml"]
        (homes[0] / "conf" / "acl" / "more.yml").unlink()
        rules.look()
        rules.look()
        assert until(lambda: sorted(copied.content()) == [""])
        assert not (homes[1] / "conf" / "acl" / "more.yml").exists()
    finally:
        servers.stop()


def test_the_log_is_copied_under_tls(tmp_path: Path) -> None:
    settings = {
        **FAST,
        "haTlsEnable": "true",
        "haAckFlushed": "true",
        "brokerRole": "SYNC_MASTER",
        "tls.client.authServer": "false",
    }
    with Standalone(tmp_path / "store", slaves=1, settings=settings) as running:
        topic = running.topic()
        assert until(lambda: is_level(running))
        send(running, topic, 20)
        master, slave = (broker.context for broker in brokers(running))
        assert slave.store.max_physical_offset() == master.store.max_physical_offset()


def test_a_master_under_tls_needs_a_certificate(tmp_path: Path) -> None:
    settings = {
        "listenPort": "0",
        "fastPortEnable": "false",
        "storePathRootDir": str(tmp_path),
        "haTlsEnable": "true",
        "tls.test.mode.enable": "false",
    }
    with pytest.raises(SettingsError, match=r"haTlsEnable=true needs a certificate"):
        Broker(pair_broker(settings)).start()


def test_consumers_read_from_the_slave_while_the_master_is_away(pair: Standalone) -> None:
    topic = pair.topic()
    bodies = send(pair, topic, 100)
    assert until(lambda: is_level(pair) and brokers(pair)[1].context.topics.get(topic))
    master, slave = brokers(pair)
    master.stop()
    with LitePullConsumer("G", pair.namesrv, consume_from="earliest") as consumer:
        consumer.subscribe(topic)
        seen: list[ReceivedMessage] = []
        assert until(lambda: seen.extend(consumer.poll(timeout=0.5)) or len(seen) == 100)
        consumer.commit(seen)
    assert sorted(message.body for message in seen) == sorted(bodies)
    assert sum(slave.context.store.committed("G", topic, queue) or 0 for queue in range(4)) == 100


def test_a_master_that_returns_takes_newer_offsets(pair: Standalone) -> None:
    topic = pair.topic()
    send(pair, topic, 40)
    assert until(lambda: is_level(pair))
    servers = pair.servers
    assert isinstance(servers, InProcessServers)
    master, slave = brokers(pair)
    master.context.store.commit("G", topic, 0, 2)
    master.stop()
    slave.context.store.commit("G", topic, 0, 7)
    again = Broker(master._loaded)
    again.start()
    try:
        assert until(lambda: again.context.store.committed("G", topic, 0) == 7)
    finally:
        again.stop()


def test_the_fixture_has_a_slave_with_every_message(mq_replicated: Standalone) -> None:
    topic = mq_replicated.topic()
    send(mq_replicated, topic, 20)
    _, slave = brokers(mq_replicated)
    mq_replicated.wait_replicated()
    assert sum(slave.context.store.max_offset(topic, queue_id) for queue_id in range(4)) == 20


@pytest.mark.parametrize(
    ("code", "fields", "answer"),
    [
        (Code.SEND_MESSAGE_V2, {"a": "P", "b": "TBW102", "c": "TBW102", "d": "4", "e": "0",
                                "f": "0", "g": "1", "h": "0", "i": "", "j": "0", "k": "false"}, 14),
        (Code.DELETE_TOPIC_IN_BROKER, {"topic": "TBW102"}, 1),
        (Code.DELETE_SUBSCRIPTIONGROUP, {"groupName": "G"}, 1),
    ],
    ids=["send", "topic", "group"],
)  # fmt: skip
def test_a_slave_refuses_what_is_its_masters(
    pair: Standalone, code: Code, fields: dict[str, str], answer: int
) -> None:
    with Probe(pair.slave_addresses[0]) as probe:
        assert probe.call(Frame(code, fields, b"body")).code == answer


def pull(topic: str, offset: int) -> Frame:
    fields = {
        "consumerGroup": "TOOLS_CONSUMER", "topic": topic, "queueId": "0", "maxMsgNums": "32",
        "queueOffset": str(offset), "sysFlag": "5", "commitOffset": "4", "subVersion": "0",
        "suspendTimeoutMillis": "0", "subscription": "*",
    }  # fmt: skip
    return Frame(Code.PULL_MESSAGE, fields)


@pytest.mark.parametrize("plane", ["native", "python"])
def test_a_pull_beyond_a_slaves_queue_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plane: str
) -> None:
    monkeypatch.setattr(slave_module, "PERIOD_S", 0.1)
    settings = {**FAST, "dataPlane": plane}
    with Standalone(tmp_path / "store", slaves=1, settings=settings) as running:
        topic = running.topic(queues=1)
        send(running, topic, 5)
        assert until(lambda: is_level(running) and brokers(running)[1].context.topics.get(topic))
        with Probe(running.broker_address) as master, Probe(running.slave_addresses[0]) as slave:
            at_master, at_slave = (probe.call(pull(topic, 50)) for probe in (master, slave))
            found = slave.call(pull(topic, 2))
        assert (at_master.code, at_master.fields["nextBeginOffset"]) == (21, "5")
        assert (at_slave.code, at_slave.fields["nextBeginOffset"]) == (20, "50")
        assert (found.code, found.fields["nextBeginOffset"]) == (0, "5")
        # A slave commits no offset that comes with a pull.
        assert brokers(running)[1].context.store.committed("TOOLS_CONSUMER", topic, 0) is None


def test_a_sync_master_waits_for_its_slave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {**FAST, "brokerRole": "SYNC_MASTER"}
    with Standalone(tmp_path / "store", slaves=1, settings=settings) as running:
        topic = running.topic()
        master, slave = brokers(running)
        with Producer(running.namesrv) as producer:
            answer_of(
                lambda: producer.send(Message(topic, b"x")).status,
                lambda status: status is SendStatus.SEND_OK,
            )
            sent = [producer.send(Message(topic, b"%d" % number)) for number in range(50)]
            assert {one.status for one in sent} == {SendStatus.SEND_OK}
            assert slave.context.store.max_physical_offset() == (
                master.context.store.max_physical_offset()
            )
            slave.stop()
            answer_of(
                lambda: producer.send(Message(topic, b"x")).status,
                lambda status: status is SendStatus.SLAVE_NOT_AVAILABLE,
            )


def test_a_promoted_slave_goes_on_with_the_queues(pair: Standalone, tmp_path: Path) -> None:
    topic = pair.topic()
    bodies = send(pair, topic, 60)
    assert until(lambda: is_level(pair) and brokers(pair)[1].context.topics.get(topic))
    pair.stop()
    with Standalone(slave_folder(pair), settings=FAST) as promoted:
        bodies += send(promoted, topic, 60, first=60)
        found = [message.body for message in promoted.messages(topic)]
        assert sorted(found) == sorted(bodies)


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_topic_of_the_last_seconds_is_promoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_killed: bool
) -> None:
    monkeypatch.setattr(slave_module, "PERIOD_S", 3600.0)
    if is_killed:  # a slave that is killed does not create the topic
        monkeypatch.setattr(slave_module, "add_late_topics", lambda *_: None)
    with Standalone(tmp_path / "store", slaves=1, settings=FAST) as running:
        master, slave = (broker.context for broker in brokers(running))
        assert until(lambda: slave.topics.version == master.topics.version)
        topic = running.topic(queues=3)
        bodies = send(running, topic, 30)
        running.wait_replicated()
        assert slave.topics.get(topic) is None
    with Standalone(slave_folder(running), settings=FAST) as promoted:
        assert sorted(message.body for message in promoted.messages(topic)) == sorted(bodies)


def test_a_slave_whose_start_fails_leaves_nothing_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {
        "brokerRole": "SLAVE",
        "brokerId": "1",
        "listenPort": "0",
        "fastPortEnable": "false",
        "storePathRootDir": str(tmp_path),
    }

    def fail(_broker: Broker) -> None:
        raise OSError("no registrar")

    with monkeypatch.context() as patch:
        patch.setattr(Broker, "_made_registrar", fail)
        with pytest.raises(OSError, match="no registrar"):
            Broker(pair_broker(settings)).start()
    again = Broker(pair_broker(settings))
    again.start()
    again.stop()
