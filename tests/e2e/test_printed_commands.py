"""Every command that an error or a hint prints can be typed: found in the sources, and run."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import mqstore
from mqclient import Message, Producer
from mqserver.embedded.standalone import Standalone
from mqserver.embedded.testing import free_port
from mqstore.offline.export import export
from tests.bad_input.commands import running

ROOT = Path(__file__).parent.parent.parent
COMMAND = re.compile(
    r"\b(mqadmin [a-z]+[A-Z]\w+|mqserver (?:namesrv|broker) [a-z]+|mqserver standalone"
    r"|mqstore (?:ls|dump|verify|stat|export|repair|rebuild)|mqclient (?:send|tail|consume|bench))"
)
TOPIC = "TopicPrinted"
ONCE = {
    "mqadmin clusterList": ["-n", "{namesrv}"],
    "mqadmin consumerProgress": ["-n", "{namesrv}"],
    "mqadmin queryMsgById": ["-n", "{namesrv}", "-i", "{id}", "-t", TOPIC],
    "mqadmin topicList": ["-n", "{namesrv}"],
    "mqadmin topicRoute": ["-n", "{namesrv}", "-t", TOPIC],
    "mqadmin updateSubGroup": ["-n", "{namesrv}", "-c", "DefaultCluster", "-g", "group_made"],
    "mqadmin updateTopic": ["-n", "{namesrv}", "-c", "DefaultCluster", "-t", "TopicMade"],
    "mqadmin updateTopicPerm": ["-n", "{namesrv}", "-c", "DefaultCluster", "-t", TOPIC, "-p", "6"],
    "mqclient bench": ["produce", "-n", "{namesrv}", "--count", "10"],
    "mqclient send": ["-n", "{namesrv}", "--file", "{file}"],
    "mqclient tail": [TOPIC, "-n", "{namesrv}", "--from", "earliest", "--count", "1"],
    "mqstore dump": ["{data}"],
    "mqstore export": ["{data}", "--to", "{new}/out.jsonl"],
    "mqstore ls": ["{data}"],
    "mqstore rebuild": ["{data}", "--to", "{new}/rebuilt"],
    "mqstore repair": ["{data}", "--to", "{new}/store"],
    "mqstore verify": ["{data}"],
}
SERVERS = {
    "mqserver namesrv start",
    "mqserver broker start",
    "mqserver broker check",
    "mqserver standalone",
}


def texts(path: Path) -> Iterator[str]:
    """The strings of a module that are not docstrings."""
    tree = ast.parse(path.read_text())
    said = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
            yield node.value


def printed_commands() -> set[str]:
    found: set[str] = set()
    for package in ("mqstore", "mqclient", "mqserver"):
        for path in (ROOT / package).rglob("*.py"):
            for text in texts(path):
                found |= set(COMMAND.findall(text))
    for path in (ROOT / "rust").glob("*/src/**/*.rs"):
        code = "\n".join(line for line in path.read_text().splitlines() if "//" not in line)
        found |= set(COMMAND.findall(code))
    return found


def test_every_printed_command_is_known_here() -> None:
    found = printed_commands()
    assert len(found) >= 8
    new = sorted(found - ONCE.keys() - SERVERS)
    assert not new, (
        f"tests/e2e/{Path(__file__).name}: add {new} to ONCE, with arguments that run them once"
    )


@pytest.fixture(scope="module")
def mq() -> Iterator[Standalone]:
    with Standalone() as both:
        topic = both.topic(TOPIC)
        with Producer(both.namesrv) as producer:
            producer.send(Message(topic, b"Hello RocketMQ"))
        both.messages(topic)
        yield both


@pytest.mark.parametrize("command", ONCE)
def test_printed_command_runs(command: str, mq: Standalone, tmp_path: Path) -> None:
    program, word = command.split()
    file = tmp_path / "in.jsonl"
    export(mqstore.open(mq.data), file)
    id = next(mqstore.open(mq.data).records(topic=TOPIC)).msg_id
    rest = [
        part.format(namesrv=mq.namesrv, data=mq.data, new=tmp_path, file=file, id=id)
        for part in ONCE[command]
    ]
    ran = subprocess.run(
        [str(Path(sys.executable).parent / program), word, *rest],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.strip()


def test_printed_servers_start(tmp_path: Path) -> None:
    ns, port = free_port(), free_port()
    (tmp_path / "broker.conf").write_text(
        f"listenPort={port}\nbrokerIP1=127.0.0.1\nstorePathRootDir={tmp_path / 'store'}\n"
        "mappedFileSizeCommitLog=1048576\n"
    )
    conf = str(tmp_path / "broker.conf")
    kv = f"kvConfigPath={tmp_path / 'kv.json'}"
    with (
        running("namesrv", "start", "--set", f"listenPort={ns}", "--set", kv) as namesrv,
        running("broker", "start", "-n", f"127.0.0.1:{ns}", "-c", conf) as broker,
    ):
        namesrv.wait_for("boot success")
        broker.wait_for(f"boot success. serializeType=JSON and name server is 127.0.0.1:{ns}")
        assert broker.stop() == 0
        assert namesrv.stop() == 0
    checked = [sys.executable, "-m", "mqserver.cli", "broker", "check", "-c", conf]
    assert subprocess.run(checked, timeout=60, check=False).returncode == 0


def test_the_printed_standalone_starts(tmp_path: Path) -> None:
    ports = ["--set-namesrv", f"listenPort={free_port()}", "--set", f"listenPort={free_port()}"]
    with running("standalone", "--data", str(tmp_path / "data"), *ports) as both:
        both.wait_for("ready: ")
        assert both.stop() == 0
