"""Access control: Java's clients and tools at our broker, our clients at Java's broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mqclient import Admin, BrokerError, Credentials, Message, Producer, PushConsumer
from mqcommon.wire.bodies.topics import TopicConfig
from tests.interop.clusters import BROKER, NAMESRV
from tests.interop.conf import SMALL_STORE
from tests.interop.java_driver import JavaDriver

USER = {"accessKey": "rocketuser", "secretKey": "12345678"}
ADMIN = {"accessKey": "rocketadmin", "secretKey": "87654321"}
ACCOUNTS = """\
accounts:
- {accessKey: rocketadmin, secretKey: 87654321, admin: true}
- accessKey: rocketuser
  secretKey: 12345678
  defaultTopicPerm: DENY
  defaultGroupPerm: SUB
  topicPerms: [AclBoth=PUB|SUB, AclPub=PUB, AclSub=SUB]
"""


class Guarded:
    """A NameServer and a broker with access control, ours or Java's."""

    def __init__(self, folder: Path, maker: str) -> None:
        self.home = folder / "broker"
        (self.home / "conf").mkdir(parents=True)
        (folder / "namesrv").mkdir()
        self.file = self.home / "conf" / "plain_acl.yml"
        self.file.write_text(ACCOUNTS)
        self._namesrv = NAMESRV["ours"](folder / "namesrv")
        settings = {**SMALL_STORE, "aclEnable": "true", "rocketmqHome": self.home}
        try:
            self._broker = BROKER[maker](self.home, self._namesrv.address, settings=settings)
        except BaseException:
            self._namesrv.process.kill()
            raise
        self.namesrv, self.broker = self._namesrv.address, self._broker.address

    def stop(self) -> None:
        try:
            self._broker.discard()
        finally:
            self._namesrv.discard()


@pytest.fixture(scope="module", params=["ours", "java"])
def guarded(
    request: pytest.FixtureRequest, java: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Guarded]:
    running = Guarded(tmp_path_factory.mktemp(f"acl_{request.param}"), request.param)
    with Admin(running.namesrv, credentials=Credentials("rocketadmin", "87654321")) as admin:
        for topic in ("AclBoth", "AclPub", "AclSub"):
            admin.topics.update(TopicConfig(topic), broker=running.broker)
    yield running
    running.stop()


def test_java_clients_with_an_account(guarded: Guarded, either_driver: JavaDriver) -> None:
    driver, namesrv = either_driver, guarded.namesrv
    sent = driver.produce(namesrv, "AclBoth", 5, body=f"{driver.serialize} ", **USER)
    assert [result["status"] for result in sent] == ["SEND_OK"] * 5
    group = f"acl_{driver.serialize}_{guarded.home.parent.name}"
    consumer = driver.consume(namesrv, group, "AclBoth", **USER)
    consumer.await_bodies({f"{driver.serialize} {i}" for i in range(5)})
    consumer.stop()


@pytest.mark.parametrize(
    ("topic", "account", "wanted"),
    [
        ("AclSub", USER, "No default permission for topic:AclSub"),
        ("AclBoth", {**USER, "secretKey": "wrongsecret"}, "Check signature failed for accessKey="),
        ("AclBoth", {**USER, "accessKey": "nosuchuser"}, "No acl config for nosuchuser"),
        ("AclBoth", {}, "No accessKey is configured"),
    ],
)
def test_java_clients_are_refused_in_javas_words(
    guarded: Guarded, java_driver: JavaDriver, topic: str, account: dict[str, str], wanted: str
) -> None:
    with pytest.raises(AssertionError, match=f"AclException: {wanted}"):
        java_driver.produce(guarded.namesrv, topic, 1, queueId=0, **account)


def test_our_clients_with_an_account(guarded: Guarded) -> None:
    account = Credentials("rocketuser", "12345678")
    for_us = f"ours_{guarded.home.parent.name}"
    got: list[bytes] = []
    with Producer(guarded.namesrv, credentials=account) as producer:
        for number in range(5):
            producer.send(Message("AclBoth", b"from us %d" % number))
        with pytest.raises(BrokerError, match="No default permission for topic:AclSub"):
            producer.send(Message("AclSub", b"x"))

    def take(messages, _context):  # type: ignore[no-untyped-def]
        got.extend(message.body for message in messages)
        if len([body for body in got if body.startswith(b"from us")]) >= 5:
            done.set()

    import threading

    done = threading.Event()
    consumer = PushConsumer(for_us, guarded.namesrv, consume_from="earliest", credentials=account)
    with consumer:
        consumer.subscribe("AclBoth", "*", take)
        assert done.wait(90), got
    with (
        Producer(guarded.namesrv, credentials=Credentials("rocketuser", "wrongsecret")) as forger,
        pytest.raises(BrokerError, match="Check signature failed"),
    ):
        forger.send(Message("AclBoth", b"x"))


def test_javas_admin_commands(guarded: Guarded, java_driver: JavaDriver) -> None:
    tools = java_driver.home / "conf" / "tools.yml"
    tools.write_text("".join(f"{name}: {value}\n" for name, value in ADMIN.items()))
    try:
        _javas_admin_commands(guarded, java_driver)
    finally:
        tools.unlink()


def _javas_admin_commands(guarded: Guarded, java_driver: JavaDriver) -> None:
    def admin(*words: str) -> str:
        return java_driver.admin(*words, "-b", guarded.broker)

    created = admin("updateAclConfig", "-a", "newaccount", "-s", "new-secret-words", "-t",
                    "AclPub=PUB")  # fmt: skip
    assert f"create or update plain access config to {guarded.broker} success." in created, created
    account = {"accessKey": "newaccount", "secretKey": "new-secret-words"}
    (sent,) = java_driver.produce(guarded.namesrv, "AclPub", 1, **account)
    assert sent["status"] == "SEND_OK"
    listed = admin("getAclConfig")
    assert "newaccount" in listed
    assert "plain_acl.yml" in admin("clusterAclConfigVersion")
    assert "success" in admin("updateGlobalWhiteAddr", "-g", "10.10.103.*")
    assert "success" in admin("deleteAclConfig", "-a", "newaccount")
    assert "newaccount" not in guarded.file.read_text()
    assert "10.10.103.*" in guarded.file.read_text()


def test_our_admin_commands(guarded: Guarded, tmp_path: Path) -> None:
    with Admin(guarded.namesrv, credentials=Credentials("rocketadmin", "87654321")) as admin:
        from mqcommon.wire.bodies.acl import PlainAccessConfig

        admin.access.put_account(guarded.broker, PlainAccessConfig("ouraccount", "our-secrets"))
        config = admin.access.config(guarded.broker)
        assert "ouraccount" in [account.access_key for account in config.plain_access_configs]
        assert "plain_acl.yml" in (admin.access.versions(guarded.broker).all_acl_file_version or "")
        admin.access.delete_account(guarded.broker, "ouraccount")
        assert "ouraccount" not in guarded.file.read_text()


def test_each_reads_the_file_that_the_other_wrote(
    guarded: Guarded, java_driver: JavaDriver, tmp_path: Path
) -> None:
    """Our reader accepts the file, whether our broker or Java's wrote it last."""
    from mqserver.broker.acl.files import read

    found = read(guarded.file, 0)
    assert {account.access_key for account in found.accounts} >= {"rocketuser", "rocketadmin"}
    assert found.version.counter >= 1
