"""Our own clients and commands at a broker with access control."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from mqadmin.main import main as mqadmin
from mqclient import BrokerError, Connection, Credentials, Message, Producer, PushConsumer
from mqclient.engine.credentials import read_credentials
from mqclient.settings.clients import ConnectionOptions
from mqcommon.wire.codes import SerializeType
from mqserver.embedded.in_process import InProcessServers

ACCOUNT = Credentials("rocketuser", "12345678")
BOTH = "AclBoth"


@pytest.fixture
def served(pair: InProcessServers) -> InProcessServers:
    """The pair, with a topic that the user may send to and read."""
    assert pair.server is not None and pair.server.context.acl is not None
    pair.server.context.acl.put_account(
        {"accessKey": "rocketuser", "topicPerms": [f"{BOTH}=PUB|SUB", "AclSub=SUB"]}
    )
    return pair


@pytest.mark.parametrize("serialize", [None, SerializeType.JSON, SerializeType.ROCKETMQ])
def test_every_request_of_a_client_is_signed(
    served: InProcessServers, serialize: SerializeType | None
) -> None:
    got, done = [], threading.Event()

    def take(messages: list, _context: object) -> None:
        got.extend(message.body for message in messages)
        if len(got) >= 4:
            done.set()

    options = {"credentials": ACCOUNT, "connection": Connection(serialize=serialize)}
    with Producer(served.namesrv, **options) as producer:
        producer.send(Message(BOTH, b"one", tags="TagA", keys="k"))
        producer.send([Message(BOTH, b"two"), Message(BOTH, b"three")])
        producer.send_oneway(Message(BOTH, b"four"))
        with pytest.raises(BrokerError, match="No default permission for topic:AclSub"):
            producer.send(Message("AclSub", b"x"))
        with PushConsumer("g", served.namesrv, consume_from="earliest", **options) as consumer:
            consumer.subscribe(BOTH, "*", take)
            assert done.wait(60), got
    assert sorted(got) == [b"four", b"one", b"three", b"two"]


@pytest.mark.parametrize(
    ("account", "wanted"),
    [
        (None, "No accessKey is configured"),
        (Credentials("rocketuser", "wrong-secret"), "Check signature failed"),
        (Credentials("nosuchuser", "12345678"), "No acl config for nosuchuser"),
    ],
)
def test_a_client_without_the_right_keys(
    served: InProcessServers, account: Credentials | None, wanted: str
) -> None:
    with (
        Producer(served.namesrv, credentials=account) as producer,
        pytest.raises(BrokerError, match=wanted) as caught,
    ):
        producer.send(Message(BOTH, b"x"))
    assert "wrong-secret" not in str(caught.value)


def test_mqadmin_signs_with_tools_yml(
    pair: InProcessServers,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("ROCKETMQ_HOME", raising=False)
    at = ["-n", pair.namesrv, "-b", pair.broker]
    wanted = ["updateTopic", *at, "-t", "T"]
    assert mqadmin(wanted) == 4
    assert "No accessKey is configured" in capsys.readouterr().err
    monkeypatch.setenv("ROCKETMQ_HOME", str(home))
    (home / "conf" / "tools.yml").write_text("accessKey: rocketuser\nsecretKey: 12345678\n")
    assert mqadmin(wanted) == 4
    assert "Need admin permission" in capsys.readouterr().err
    (home / "conf" / "tools.yml").write_text("accessKey: rocketadmin\nsecretKey: 87654321\n")
    assert mqadmin(wanted) == 0
    capsys.readouterr()
    account = ["-a", "newaccount", "-s", "new-secret-words"]
    steps = [
        ["updateAclConfig", *at, *account, "-t", "T=PUB", "-m", "false"],
        ["getAclConfig", *at],
        ["clusterAclConfigVersion", "-n", pair.namesrv, "-c", "DefaultCluster"],
        ["updateGlobalWhiteAddr", *at, "-g", "10.10.103.*,192.168.0.*"],
        ["deleteAccessConfig", *at, "-a", "newaccount"],
    ]
    printed = []
    for step in steps:
        assert mqadmin([*step, "--output", "table"]) == 0, step
        printed.append(capsys.readouterr().out)
    created, shown, versions, white, deleted = printed
    assert f"create or update plain access config to {pair.broker} success." in created
    assert "  accessKey         : newaccount\n  secretKey         : ******\n" in shown
    assert "  topicPerms        : [T=PUB]\n" in shown
    assert versions.startswith("#Cluster Name     #Broker Name            #Broker Addr")
    assert versions.endswith("get cluster's plain access config version success.\n")
    assert white == f"update global white remote addresses to {pair.broker} success.\n"
    assert f"delete plain access config account from {pair.broker} success.\n" in deleted
    assert not any(secret in "".join(printed) for secret in ("new-secret-words", "87654321"))
    assert mqadmin(["deleteAclConfig", *at, "-a", "nosuchaccount"]) == 1
    words = "The accesskey[nosuchaccount] corresponding to accessConfig has been deleted failed."
    assert words in capsys.readouterr().err


def test_keys_come_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "conf" / "tools.yml"
    path.parent.mkdir()
    path.write_text("accessKey: someuser\nsecretKey: 12345678\nsecurityToken: token\n")
    wanted = Credentials("someuser", "12345678", "token")
    assert read_credentials(path) == wanted
    monkeypatch.setenv("ROCKETMQ_HOME", str(tmp_path))
    assert read_credentials(None) == wanted
    path.write_text("# none\n")
    assert read_credentials(None) is None
    for text in ("accessKey: someuser\n", "- 1\n", "a: [", "x" * 100_000):
        path.write_text(text)
        with pytest.raises(ValueError, match=r"tools\.yml") as caught:
            read_credentials(path)
        assert text not in str(caught.value)
    monkeypatch.delenv("ROCKETMQ_HOME")
    assert read_credentials(None) is None


def test_keys_go_together_and_are_not_shown() -> None:
    with pytest.raises(TypeError, match="missing argument 'secret_key'"):
        Credentials("someuser")  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="must not be empty"):
        Credentials("someuser", "")
    options = ConnectionOptions(credentials=Credentials("someuser", "s3cret", "t0ken"))
    assert "s3cret" not in repr(options) and "t0ken" not in repr(options)
    assert ConnectionOptions().account() == {}
