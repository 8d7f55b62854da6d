"""`mqclient bench` at a broker with access control: it signs as the other commands do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mqclient.cli.bench import bench
from mqserver.embedded.in_process import InProcessServers
from tests.acl.signing import ADMIN, USER

DENIED = 4


def run(pair: InProcessServers, keys: Path | None, *arguments: str) -> tuple[int, str, str]:
    """Run the command with the account in `keys`; return its exit code, stdout and stderr."""
    named = ("--credentials", str(keys)) if keys else ()
    result = CliRunner().invoke(bench, [*arguments, "-n", pair.namesrv, *named])
    return result.exit_code, result.stdout, result.stderr


def report(pair: InProcessServers, keys: Path, *arguments: str) -> dict[str, Any]:
    """The report of a run that must be a good one."""
    code, out, words = run(pair, keys, *arguments, "--output", "json")
    assert (code, words) == (0, ""), out
    whole: list[dict[str, Any]] = json.loads(out)
    return whole[0]


def keys_file(tmp_path: Path, account: tuple[str, str]) -> Path:
    """A tools.yml."""
    path = tmp_path / "tools.yml"
    path.write_text(f"accessKey: {account[0]}\nsecretKey: '{account[1]}'\n")
    return path


@pytest.mark.parametrize(
    "mode",
    [
        "--in-flight 8",
        "--in-flight 8 --headers rocketmq --tags TagA",
        "--batch 5 --topics 3",
        "--oneway --in-flight 8 --rate 5000",
    ],
)
def test_every_load_is_signed(pair: InProcessServers, tmp_path: Path, mode: str) -> None:
    keys = keys_file(tmp_path, ADMIN)
    words = mode.split()
    topics = ("-t", "Signed", *(words[2:4] if "--topics" in words else ()))
    new = ("--queues", "4")  # a separate request creates the topic before the load starts
    sent = report(pair, keys, "produce", "-t", "Signed", "--count", "60", *new, *words)
    assert (sent["totals"]["sent"], sent["totals"]["stored"]) == (60, 60)
    read = report(pair, keys, "consume", *topics, "--commit")
    assert (read["messages"], read["totals"]["missing"]) == (60, 0)
    assert ADMIN[1] not in json.dumps([sent, read])
    assert sent["settings"]["load"]["signed"] is True


def test_both_ends_and_heartbeats_are_signed(pair: InProcessServers, tmp_path: Path) -> None:
    keys = keys_file(tmp_path, ADMIN)
    rate = ("--duration", "0.3", "--warmup", "0", "--rate", "500", "--queues", "4")
    found = report(pair, keys, "latency", "-t", "Signed", *rate)
    assert found["messages"] == found["totals"]["sent"] == 150
    storm = ("--connections", "5", "--rate", "0", "--duration", "0.5", "--role", "consumer")
    found = report(pair, keys, "connect", "-t", "Signed", *storm)
    assert (found["totals"]["connected"], found["totals"]["heartbeats"]) == (5, 5)


@pytest.mark.parametrize(
    ("account", "words"),
    [
        (None, "No accessKey is configured"),
        ((USER[0], "wrong-secret"), "Check signature failed for accessKey=rocketuser"),
        (("nosuchuser", USER[1]), "No acl config for nosuchuser"),
        (USER, "No default permission for topic:TBW102"),
    ],
)
@pytest.mark.parametrize("load", ["produce --count 5", "connect --connections 2 --duration 0.3"])
def test_what_is_wrong_with_an_account_is_said(
    pair: InProcessServers, tmp_path: Path, account: tuple[str, str] | None, words: str, load: str
) -> None:
    if account == USER:
        load, words = "produce --count 5 -t AclDeny", "No default permission for topic:AclDeny"
        report(pair, keys_file(tmp_path, ADMIN), *load.split(), "--queues", "4")  # it is there
    keys = keys_file(tmp_path, account) if account else None
    code, out, said = run(pair, keys, *load.split())
    assert (code, out) == (DENIED, "")
    assert words in said and "wrong-secret" not in said
