"""The command mqstore: JSON lines in a pipe, tables on request, exit codes."""

import csv
import json
import os
import subprocess
import sys

import pytest

from mqstore.cli import main
from mqstore.cli.output import chosen_format


@pytest.fixture
def run(capsys):
    """Run the command; gives exit code, standard output and standard error."""

    def run(*arguments):
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


def test_ls(run, golden_store):
    code, out, _ = run("ls", golden_store("store"))
    rows = lines(out)
    assert (code, len(rows)) == (0, 37)
    assert rows[0].keys() == {"topic", "queueId", "minOffset", "maxOffset", "messages"}
    code, out, _ = run("ls", golden_store("store"), "--topic", "TopicTest", "--output", "table")
    assert "TopicTest" in out
    assert "RMQ_SYS" not in out
    assert "commit log: files of 65536 bytes, from offset 0 to 262144" in out


def test_dump_has_rocketmqs_names(run, golden_store):
    code, out, _ = run("dump", golden_store("store"), "--count", 2)
    first, second = lines(out)
    assert code == 0
    assert (first["topic"], first["body"], first["tags"]) == (
        "TopicTest", "Hello RocketMQ 0", "TagA",
    )  # fmt: skip
    assert first["bodyCRC"] == 613185359
    assert first["storeTime"] == "2026-11-21T07:31:10.383+00:00"
    assert second["offsetMsgId"] == "7F00000100002A9F00000000000000BE"


def test_dump_chooses(run, golden_store):
    store = golden_store("store")
    everything = lines(run("dump", store)[1])
    assert len(everything) == 605
    assert len(lines(run("dump", store, "--topic", "TopicTest", "--queue", 2)[1])) == sum(
        row["topic"] == "TopicTest" and row["queueId"] == 2 for row in everything
    )
    assert [row["commitLogOffset"] for row in lines(
        run("dump", store, "--offset", 190, "--stop", 760)[1]
    )] == [190, 380, 570]  # fmt: skip
    tagged = lines(run("dump", store, "--tag", "TagA")[1])
    assert {row["tags"] for row in tagged} == {"TagA"}
    keyed = next(row for row in everything if row["keys"])
    key = keyed["keys"].split()[0]
    found = lines(run("dump", store, "--topic", keyed["topic"], "--key", key)[1])
    assert keyed in found


@pytest.mark.parametrize(
    ("how", "body"),
    [("hex", b"Hello RocketMQ 0".hex()), ("base64", "SGVsbG8gUm9ja2V0TVEgMA=="), ("none", None)],
)
def test_dump_writes_bodies_as_asked(run, golden_store, how, body):
    (row,) = lines(run("dump", golden_store("store"), "--count", 1, "--body", how)[1])
    assert row.get("body") == body


def test_other_outputs(run, golden_store):
    store = golden_store("store")
    assert len(json.loads(run("dump", store, "--count", 3, "--output", "json")[1])) == 3
    assert json.loads(run("dump", store, "--count", 0, "--output", "json")[1]) == []
    rows = list(csv.DictReader(run("dump", store, "--count", 3, "--output", "csv")[1].splitlines()))
    assert [row["body"] for row in rows] == [f"Hello RocketMQ {i}" for i in range(3)]
    table = run("dump", store, "--count", 1, "--output", "table")[1]
    assert "Hello RocketMQ 0" in table
    assert chosen_format("csv") == "csv"


def test_verify_exits_5_on_damage(run, golden_store):
    code, out, _ = run("verify", golden_store("store"))
    (summary,) = lines(out)
    assert (code, summary["records"], summary["findings"]) == (0, 605, 0)
    assert run("verify", golden_store("store"), "--output", "table")[1].startswith(
        "ok: 605 records"
    )
    code, out, _ = run("verify", golden_store("store-damaged"))
    finding, summary = lines(out)
    assert (code, finding["kind"], finding["offset"]) == (5, "crc", 219148)
    code, out, _ = run("verify", golden_store("store-damaged"), "--output", "table")
    assert code == 5
    assert "damaged: 1 findings in 1028 records" in out


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ((), 2, "Usage"),
        (("nonsense",), 2, "No such command"),
        (("dump",), 2, "Missing argument"),
        (("ls", "/nonexistent/store"), 1, "/nonexistent/store"),
        (("ls", "/"), 1, "no commitlog directory"),
    ],
)
def test_wrong_usage_and_missing_stores(run, arguments, code, words):
    got, out, err = run(*arguments)
    assert got == code
    assert words in out + err


def test_an_offset_that_is_no_record_is_said(run, golden_store):
    store = golden_store("store")
    code, _, err = run("dump", store, "--offset", 5)
    assert (code, "no record starts at offset 5" in err) == (1, True)
    assert run("dump", store, "--key", "k")[0] == 2


def test_a_pipe_that_closes_early_is_no_error(golden_store):
    """`mqstore dump DIR | head -1`."""
    program = "import sys; from mqstore.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "dump", str(golden_store("store"))]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ
    ) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(30) == 0
        assert process.stderr.read() == b""


def test_dump_marks_a_damaged_body(run, golden_store):
    store = golden_store("store-damaged")
    rows = lines(run("dump", store, "--offset", 219148, "--count", 2)[1])
    assert ["damaged" in row.get("bodyError", "") for row in rows] == [True, False]
