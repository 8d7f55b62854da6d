"""Every reading command of our mqadmin, by a saved context, at a broker that takes only TLS and
known accounts, ours or Java's, and at RocketMQ 5.
"""

from __future__ import annotations

import io
import json
import shlex
from collections.abc import Iterator
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from mqadmin import main
from mqadmin.doctor import servers
from mqclient import (
    Admin,
    ConsumeResult,
    Credentials,
    Message,
    MessageQueue,
    Producer,
    PushConsumer,
    RocketMQError,
)
from mqcommon.wire.bodies.topics import TopicConfig
from tests.admin.json_schema import RECORDED_SCHEMAS, check_rows
from tests.interop.clusters import BROKER, NAMESRV
from tests.interop.conf import SMALL_STORE
from tests.interop.test_acl import ACCOUNTS, ADMIN
from tests.interop.test_tls import Papers
from tests.waiting import until

TOPIC, GROUP = "ClosedTopic", "closed_group"
SAMPLE = "- {accessKey: rocketmq2, secretKey: 12345678, admin: true}\n"
"""An account of RocketMQ's sample file."""
AUTH = "org.apache.rocketmq.auth"
USERS_OF_5 = {
    "authenticationEnabled": "true",
    "authenticationProvider": f"{AUTH}.authentication.provider.DefaultAuthenticationProvider",
    "authenticationMetadataProvider":
        f"{AUTH}.authentication.provider.LocalAuthenticationMetadataProvider",
    "initAuthenticationUser": '{"username":"rocketadmin","password":"87654321"}',
    "innerClientAuthenticationCredentials": '{"accessKey":"rocketadmin","secretKey":"87654321"}',
    "authorizationEnabled": "true",
    "authorizationProvider": f"{AUTH}.authorization.provider.DefaultAuthorizationProvider",
    "authorizationMetadataProvider":
        f"{AUTH}.authorization.provider.LocalAuthorizationMetadataProvider",
}  # fmt: skip
LINES = """\
clusterList
clusterList-more: clusterList -m
topicList
topicList-cluster: topicList -c
topicClusterList -t ClosedTopic
topicRoute -t ClosedTopic
topicRoute-list: topicRoute -t ClosedTopic -l
topicStatus -t ClosedTopic
allocateMQ -t ClosedTopic -i 10.0.0.1,10.0.0.2
statsAll -t ClosedTopic
brokerConsumeStats -b {broker}
brokerStatus -b {broker}
consumerConnection -g closed_group
consumerProgress
consumerProgress-group: consumerProgress -g closed_group
consumerStatus -g closed_group
producer -b {broker}
getConsumerConfig -g closed_group
getBrokerConfig -b {broker}
getNamesrvConfig
queryMsgById -i {offset_id}
queryMsgById -i {unique_id}
queryMsgByKey -t ClosedTopic -k k1
queryMsgByUniqueKey -i {unique_id} -t ClosedTopic
queryMsgByOffset -t ClosedTopic -b broker-a -i 0 -o 0
queryCq -t ClosedTopic -q 0 -i 0 -c 2 -b {broker} -g closed_group
printMsg -t ClosedTopic
printMsgByQueue -t ClosedTopic -a broker-a -i 0 -p true -d true
consumeMessage -t ClosedTopic -b broker-a -i 0 -o 0 -c 1
sendMessage -t ClosedTopic -p hello -b broker-a -i 0
checkMsgSendRT -t ClosedTopic -a 2 -s 16
exportMetadata -c DefaultCluster -f {folder}
exportConfigs -c DefaultCluster -f {folder}
exportMetrics -c DefaultCluster -f {folder}
lag -g closed_group
lag_total: lag --total
offsets export -g closed_group
offsets reset -g closed_group -t ClosedTopic --to earliest --dry-run
messages find -t ClosedTopic --body body
dlq list
dlq peek -g closed_group
top --count 1 --interval 0.5
""".splitlines()
"""Command lines, after the name of their schema if it differs from the command's."""
ACCOUNT_LINES = ["getAclConfig -b {broker}", "clusterAclConfigVersion -c DefaultCluster"]


class Closed:
    """A NameServer and a broker, and the context `closed` that reaches them."""

    def __init__(self, folder: Path, maker: str) -> None:
        self.maker, self.folder = maker, folder
        home = folder / "broker"
        (home / "conf").mkdir(parents=True)
        for name in ("namesrv", "papers", "exports"):
            (folder / name).mkdir()
        self.papers = Papers(folder / "papers")
        self.tools = folder / "tools.yml"
        self.tools.write_text("".join(f"{key}: {value}\n" for key, value in ADMIN.items()))
        (home / "conf" / "plain_acl.yml").write_text(ACCOUNTS + SAMPLE)
        accounts = USERS_OF_5 if maker == "java5" else {"aclEnable": "true", "rocketmqHome": home}
        flags: dict[str, Any] = {"flags": self.papers.flags}
        ours = {"tls.server.mode": "enforcing", "tls.config.file": self.papers.file}
        secured: dict[str, Any] = {"settings": ours} if maker == "ours" else flags
        own = ours if maker == "ours" else {}
        with ExitStack() as stack:
            namesrv = NAMESRV[maker](folder / "namesrv", **secured)  # type: ignore[index]
            stack.callback(namesrv.discard)
            settings = {**secured, "settings": {**SMALL_STORE, **accounts, **own}}
            broker = BROKER[maker](home, namesrv.address, **settings)  # type: ignore[index]
            stack.callback(broker.discard)
            self.namesrv, self.broker = namesrv.address, broker.address
            self._fill(stack)
            self._stack = stack.pop_all()

    def _fill(self, stack: ExitStack) -> None:
        """A topic with messages, a group with a member and offsets, a dead letter."""
        client: dict[str, Any] = {
            "credentials": Credentials(ADMIN["accessKey"], ADMIN["secretKey"]),
            "tls": self.papers.tls,
        }
        dead = f"%DLQ%{GROUP}"
        with Admin(self.namesrv, **client) as admin:
            for topic in (TOPIC, dead):
                config = TopicConfig(topic, read_queue_nums=2, write_queue_nums=2)
                admin.topics.update(config, broker=self.broker)
                assert until(lambda topic=topic: is_routed(admin, topic))  # type: ignore[misc]
            producer = stack.enter_context(Producer(self.namesrv, **client))
            sent = [producer.send(Message(TOPIC, b"body", keys=f"k{n}")) for n in range(6)]
            producer.send(Message(dead, b"dead"))
            consumer = PushConsumer(GROUP, self.namesrv, consume_from="earliest", **client)
            consumer.subscribe(TOPIC, "*", lambda *_: ConsumeResult.SUCCESS)
            stack.enter_context(consumer)
            for queue_id in range(2):
                admin.offsets.commit(GROUP, MessageQueue(TOPIC, "broker-a", queue_id), 1)
            assert until(lambda: is_routed(admin, f"%RETRY%{GROUP}"))
            end = MessageQueue(TOPIC, "broker-a", 0)
            assert until(lambda: admin.offsets.maximum(end) == 3)
        self.words = {
            "broker": self.broker,
            "offset_id": sent[0].offset_msg_id,
            "unique_id": sent[0].msg_id,
            "folder": str(self.folder / "exports"),
        }

    def stop(self) -> None:
        self._stack.close()


def is_routed(admin: Admin, topic: str) -> bool:
    try:
        return bool(admin.topics.route(topic).queue_datas)
    except RocketMQError:
        return False


def run(line: str, *more: str) -> tuple[int, str, str]:
    """Exit code, output and errors of a command line."""
    output, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(output), redirect_stderr(errors):
        code = main([*shlex.split(line), *more])
    return code, output.getvalue(), errors.getvalue()


@pytest.fixture(
    scope="module", params=["ours", "java", pytest.param("java5", marks=pytest.mark.soak)]
)
def closed(
    request: pytest.FixtureRequest, java: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Closed]:
    running = Closed(tmp_path_factory.mktemp(f"closed_{request.param}"), request.param)
    yield running
    running.stop()


@pytest.fixture
def current(closed: Closed, monkeypatch: pytest.MonkeyPatch) -> Closed:
    """The cluster is that of the current context; files of commands go to its folder."""
    monkeypatch.chdir(closed.folder)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(closed.folder))
    for name in ("MQADMIN_CONTEXT", "NAMESRV_ADDR", "ROCKETMQ_HOME"):
        monkeypatch.delenv(name, raising=False)
    files = f"--credentials {closed.tools} --tls-config {closed.papers.file}"
    add = f"context add closed -n {closed.namesrv} {files} --use --replace"
    assert run(add)[0] == 0
    return closed


@pytest.mark.parametrize("line", LINES)
def test_a_context_is_enough_for_a_reading_command(current: Closed, line: str) -> None:
    schema, _, rest = line.rpartition(": ")
    words = rest.format(**current.words)
    if not schema:
        two = rest.startswith(("offsets ", "dlq ", "messages "))
        schema = "_".join(rest.split()[: 2 if two else 1])
    code, text, errors = run(words, "--output", "rocketmq")
    assert (code, errors) == (0, ""), words
    assert text
    code, text, errors = run(words, "--output", "json")
    assert (code, errors) == (0, ""), words
    rows = json.loads(text)
    rows = rows if isinstance(rows, list) else [rows]
    assert rows
    (path,) = RECORDED_SCHEMAS.rglob(f"{schema}.json")
    check_rows(schema, rows, path.parent)


@pytest.mark.parametrize("line", ACCOUNT_LINES)
def test_accounts_are_shown(current: Closed, line: str) -> None:
    code, text, errors = run(line.format(**current.words), "--output", "json")
    if current.maker == "java5":  # it has users in place of accounts
        assert (code, "REQUEST_CODE_NOT_SUPPORTED" in errors) == (1, True)
        return
    assert (code, errors) == (0, "")
    check_rows(line.split()[0], json.loads(text))
    assert "87654321" not in text


def test_the_doctor_finds_the_sample_account(
    current: Closed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "_disk", lambda _broker: ())  # this machine's does not count
    code, text, _ = run("doctor --sample 0 --output json")
    rows = json.loads(text)
    check_rows("doctor", rows)
    where = f"broker broker-a at {current.broker}"
    errors = [(row["check"], row["subject"]) for row in rows if row["severity"] == "error"]
    has_sample = current.maker != "java5"
    assert (code, errors) == ((1, [("acl.default", where)]) if has_sample else (0, []))
    assert not {row["check"] for row in rows} & {"doctor.unanswered", "acl.off", "broker.clock"}


@pytest.mark.parametrize(
    "line",
    ["clusterList", "topicStatus -t ClosedTopic", "lag", "consumerProgress", "top --count 1"],
)
def test_without_an_account_a_command_is_denied(current: Closed, line: str) -> None:
    words = ("-n", current.namesrv, "--tls-config", str(current.papers.file), "--output", "json")
    code, _, errors = run(line, *words)
    assert (code, current.broker in errors) == (4, True), errors


def test_without_tls_a_server_is_not_reached(current: Closed, tmp_path: Path) -> None:
    code, _, errors = run("topicList", "-n", current.namesrv)
    assert (code, "if it takes only TLS" in errors) == (3, True)
    stranger = Papers(tmp_path)
    code, _, errors = run("topicList", "-n", current.namesrv, "--tls-config", str(stranger.file))
    assert (code, "issuer is not trusted" in errors) == (3, True)
