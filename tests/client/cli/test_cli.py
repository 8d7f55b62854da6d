"""The commands: output, exit codes and messages."""

import io
import json
import os
import signal

import pytest

from mqclient.cli.main import main
from mqcommon.wire import Frame, RequestCode
from tests.client.cluster import Cluster


@pytest.fixture
def cluster(monkeypatch):
    played = Cluster(T=2)
    monkeypatch.setattr("mqclient.engine.transport.Transport", lambda: played.transport)
    return played


def test_send_writes_a_line_for_each_message(cluster, capsys):
    words = ["send", "T", "one", "two", "--tags", "A", "--keys", "k1", "--keys", "k2"]
    assert main([*words, "--property", "color=blue", "-n", "h:1"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["status"] for row in rows] == ["SEND_OK", "SEND_OK"]
    assert {row["queueId"] for row in rows} == {0, 1}
    sent = cluster.requests(RequestCode.SEND_MESSAGE_V2)
    assert [frame.body for frame in sent] == [b"one", b"two"]
    for text in ("TAGS\x01A", "KEYS\x01k1 k2", "color\x01blue"):
        assert text in sent[0].fields["i"]


def test_send_reads_lines(cluster, capsys, monkeypatch):
    lines = b"".join(b"line %d\n" % i for i in range(200)) + b"\r\n\nlast"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines)))
    assert main(["send", "T", "--output", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 201
    assert cluster.requests(RequestCode.SEND_MESSAGE_V2)[-1].body == b"last"


def watch(cluster, act):
    """Call `act` whenever the broker gets a message."""

    def send(address, request):
        act()
        return cluster.send(address, request)

    cluster.transport.scripts[RequestCode.SEND_MESSAGE_V2] = send


@pytest.fixture
def typed(monkeypatch):
    """Replaces standard input by a pipe; returns its writing end, which stays open."""
    reading, writing = os.pipe()
    with open(reading) as stdin, open(writing, "wb", buffering=0) as keyboard:
        monkeypatch.setattr("sys.stdin", stdin)
        yield keyboard


def test_a_line_is_sent_as_soon_as_it_is_read(cluster, capsys, typed):
    waiting = [b"second", b"third"]

    def next_line():
        if waiting:  # the next line is written only when the one before has arrived
            typed.write(waiting.pop(0) + b"\n")
        else:
            typed.close()

    watch(cluster, next_line)
    typed.write(b"first\n")
    assert main(["send", "T"]) == 0
    sent = [frame.body for frame in cluster.requests(RequestCode.SEND_MESSAGE_V2)]
    assert sent == [b"first", b"second", b"third"]
    assert len(capsys.readouterr().out.splitlines()) == 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_sends_what_was_read(cluster, capsys, typed, number):
    typed.write(b"".join(b"%d\n" % i for i in range(100)))
    watch(cluster, lambda: os.kill(os.getpid(), number))
    assert main(["send", "T"]) == 128 + number
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 100
    assert f"stopped by {number.name}; all 100 messages" in err


def test_tail_prints_and_ends_after_count(cluster, capsys):
    cluster.put("T", b"one", b"two", TAGS="A")
    cluster.put("T", b"three", queue_id=1)
    assert main(["tail", "T", "--from", "earliest", "--count", "3"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert sorted(row["body"] for row in rows) == ["one", "three", "two"]
    assert {row["tags"] for row in rows} == {"A", None}
    assert not cluster.heartbeats, "tail joins no group"
    assert not cluster.committed, "tail commits nothing"
    for request in cluster.requests(RequestCode.PULL_MESSAGE):
        assert request.fields["consumerGroup"] == "TOOLS_CONSUMER"


def test_tail_table_and_tags(cluster, capsys):
    cluster.put("T", b"no", TAGS="B")
    cluster.put("T", b"yes", TAGS="A", KEYS="k1")
    words = ["tail", "T", "--from", "2026-01-01", "--count", "1", "--tags", "A"]
    cluster.transport.scripts[29] = lambda _a, _r: cluster.offset(0)
    assert main([*words, "--output", "table"]) == 0
    titles, rule, line = capsys.readouterr().out.splitlines()
    assert titles.split() == ["storeTime", "queueId", "queueOffset", "tags", "keys", "body"]
    assert rule == "─" * len(titles)
    assert line.split()[-3:] == ["A", "k1", "yes"]
    assert line.index("A ") == titles.index("tags"), "cells stand under their titles"


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["tail", "Nope", "-n", "h:1"], 1, "mqadmin updateTopic -n h:1 -c DefaultCluster -t Nope"),
        (["send", "a b", "x"], 2, "topic 'a b'"),
        (["send", "T", "x", "--property", "p"], 2, "NAME=VALUE"),
        (["send", "T", "x", "-n", "h:x"], 2, "not an address"),
        (["tail", "T", "--from", "noon"], 2, "earliest"),
        (["tail", "T", "--address-map", "x"], 2, "HOST:PORT=HOST:PORT"),
        (["consume", "T"], 2, "--group"),
        (["nothing"], 2, "No such command"),
    ],
)
def test_errors_and_exit_codes(cluster, capsys, words, code, text):
    assert main(words) == code
    assert text in capsys.readouterr().err


@pytest.mark.parametrize(
    ("code", "remark", "wanted"), [(16, "no", 4), (1, "AclException: denied", 4), (13, "bad", 1)]
)
def test_refusals(cluster, capsys, code, remark, wanted):
    cluster.transport.scripts[310] = lambda _a, _r: Frame(code, remark=remark)
    assert main(["send", "T", "x", "--timeout", "0.1"]) == wanted
    assert remark in capsys.readouterr().err


def test_unreachable(capsys):
    assert main(["send", "T", "x", "-n", "127.0.0.1:1"]) == 3
    assert "no NameServer answers" in capsys.readouterr().err


def test_help_lists_every_command(capsys):
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    for name in ("bench", "consume", "send", "tail"):
        assert name in out


def test_a_file_of_no_known_format_is_wrong_usage(tmp_path, capsys):
    path = tmp_path / "passwd"
    path.write_text("root\n")
    assert main(["send", "--file", str(path), "-n", "127.0.0.1:1"]) == 2
    assert f"--file {path}: its name must end in one of .jsonl" in capsys.readouterr().err
