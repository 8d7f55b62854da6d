"""The command mqstore: JSON lines in a pipe, tables on request, exit codes."""

import csv
import json
import os
import shutil
import signal
import struct
import subprocess
import sys

import pytest

import mqstore
from mqcommon.cli.output import chosen_format
from mqstore.cli import main


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


def test_a_mistyped_topic_is_said_to_be_missing(run, golden_store, tmp_path):
    store = golden_store("store")
    to = tmp_path / "out.jsonl"
    for words in (["ls"], ["dump"], ["dump", "--key", "k"], ["export", "--to", to]):
        code, out, err = run(words[0], store, *words[1:], "--topic", "TopicTset")
        assert (code, out) == (1, ""), words
        assert "no topic 'TopicTset'; did you mean TopicTest" in err
    assert not to.exists()


def test_a_topic_without_queues_is_read_from_the_log(run, golden_store, tmp_path):
    store = shutil.copytree(golden_store("store"), tmp_path / "store")
    shutil.rmtree(store / "consumequeue" / "TopicTest")
    code, out, _ = run("dump", store, "--topic", "TopicTest", "--count", 3)
    assert (code, len(lines(out))) == (0, 3)


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
    tagged = lines(run("dump", store, "--tags", "TagA")[1])
    assert {row["tags"] for row in tagged} == {"TagA"}
    several = lines(run("dump", store, "--tags", "TagA || TagB")[1])
    assert several == [row for row in everything if row["tags"] in ("TagA", "TagB")]
    assert len(several) > len(tagged)
    assert lines(run("dump", store, "--tags", "*")[1]) == everything
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
    finding, notice, summary = lines(out)
    assert (code, finding["kind"], finding["offset"]) == (5, "crc", 219148)
    assert (finding["severity"], notice["severity"]) == ("damage", "notice")
    assert (summary["findings"], summary["notices"]) == (1, 1)
    code, out, _ = run("verify", golden_store("store-crashed"), "--output", "table")
    assert code == 0  # the usual remains of a crash are no damage
    assert "230 messages from here on are not in their queues yet" in out
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


def test_dump_by_id_and_time(run, golden_store):
    store = golden_store("store")
    everything = lines(run("dump", store)[1])
    one = everything[100]
    for msg_id in (one["msgId"], one["offsetMsgId"]):
        assert one in lines(run("dump", store, "--msg-id", msg_id)[1])
    assert run("dump", store, "--msg-id", "nothing")[:2] == (0, "")
    other = next(row["topic"] for row in everything if row["topic"] != one["topic"])
    assert run("dump", store, "--msg-id", one["msgId"], "--topic", other)[:2] == (0, "")
    middle = one["storeTimestamp"]
    late = lines(run("dump", store, "--from", middle)[1])
    assert late == [row for row in everything if row["storeTimestamp"] >= middle]
    assert lines(run("dump", store, "--until", middle)[1]) == [
        row for row in everything if row["storeTimestamp"] < middle
    ]
    unzoned = one["storeTime"].removesuffix("+00:00")
    assert lines(run("dump", store, "--from", unzoned, "--count", 3)[1]) == late[:3]


def test_stat(run, golden_store):
    store = golden_store("store")
    code, out, _ = run("stat", store)
    (row,) = lines(out)
    assert (code, row["condition"], row["messages"], row["endOffset"]) == (0, "clean", 605, 222390)
    assert row["brokerConf"]["mappedFileSizeCommitLog"] == "65536"
    assert row["parts"]["commitlog"]["files"] == 4
    out = run("stat", store, "--output", "table")[1]
    assert "clean: the last broker shut down cleanly" in out
    assert "\nmaxIndexNum=400\n" in out
    out = run("stat", golden_store("store-crashed"), "--output", "table")[1]
    assert "crashed: the last broker did not shut down cleanly" in out
    assert "bytes of records are in no queue yet" in out


def test_a_table_is_safe_for_a_terminal(run, tmp_path):
    settings = mqstore.Settings(
        commit_log_file_bytes=1 << 20, index_slots=100, index_entries=400, min_free_bytes=0
    )
    with mqstore.Store(tmp_path / "store", settings, create=True) as store:
        for _ in range(1200):
            store.put("T", b"\x1b[2J[bold]\nline")
    out = run("dump", tmp_path / "store", "--output", "table")[1]
    assert "\x1b" not in out
    assert out.count("[2J[bold] line") == 1200
    assert out.count("commitLogOffset") == 1  # the second page has no header


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--key", "k"), "--key needs --topic"),
        (("--key", "k", "--topic", "T", "--msg-id", "1"), "not both"),
        (("--follow", "--msg-id", "1"), "--follow cannot be used with"),
        (("--follow", "--output", "csv"), "--follow needs --output table or jsonl"),
        (("--from", "yesterday"), "'yesterday' is not a time"),
        (("--from", "2026-01-02", "--until", "2026-01-01"), "--from is later than --until"),
        (("--body", "raw"), "'raw'"),
        (("--count", "-1"), "--count"),
    ],
)
def test_wrong_use_of_dump(run, golden_store, words, said):
    code, _, err = run("dump", golden_store("store"), *words)
    assert code == 2
    assert said in err


def test_an_offset_that_is_no_record_is_said(run, golden_store):
    store = golden_store("store")
    code, _, err = run("dump", store, "--offset", 5)
    assert (code, "no record starts at offset 5" in err) == (1, True)


@pytest.mark.parametrize("command", ["ls", "stat", "dump", "verify", "export", "repair", "rebuild"])
def test_every_command_says_what_is_missing(run, tmp_path, command):
    extra = {"export": ["--to", tmp_path / "f.csv"], "repair": ["--to", tmp_path / "d"],
             "rebuild": ["--to", tmp_path / "d"]}.get(command, [])  # fmt: skip
    code, _, err = run(command, tmp_path / "none", *extra)
    assert (code, str(tmp_path / "none") in err) == (1, True)
    code, _, err = run(command, tmp_path, *extra)
    assert (code, "no commitlog directory" in err) == (1, True)
    (tmp_path / "file").touch()
    assert run(command, tmp_path / "file", *extra)[0] == 1
    assert not (tmp_path / "d").exists()
    assert run(command, "--help")[0] == 0


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Enough records that a check takes a while."""
    root = tmp_path_factory.mktemp("large") / "store"
    settings = mqstore.Settings(commit_log_file_bytes=64 << 20, min_free_bytes=0)
    with mqstore.Store(root, settings, create=True) as store:
        item = struct.pack(">iiiii400sh", 422, 0, 0, 0, 400, b"", 0)
        for _ in range(300):
            assert store.put("T", item * 1000, batch=True).status == "PUT_OK"
    return root


@pytest.mark.parametrize("command", [("verify",), ("export", "--to", "{}/out.csv")])
def test_long_work_shows_a_bar_and_ctrl_c_leaves_nothing(large, tmp_path, terminal, command):
    words = [word.format(tmp_path) for word in command]
    opened = terminal(words[0], large, *words[1:])
    assert words[0] in opened.shown(words[0])
    os.kill(opened.process.pid, signal.SIGINT)
    shown = opened.shown()
    assert opened.process.wait(60) == 130
    assert opened.process.stdout.read() == b""
    assert "Traceback" not in shown
    assert list(tmp_path.iterdir()) == []


def test_a_bar_counts_to_the_end(large, tmp_path, terminal):
    opened = terminal("export", large, "--to", tmp_path / "out.jsonl", "--count", 20_000)
    shown = opened.shown()
    out = opened.process.stdout.read()
    assert opened.process.wait(60) == 0
    assert json.loads(out)["messages"] == 20_000
    assert "export" in shown


def test_a_pipe_that_closes_early_is_no_error(golden_store):
    """`mqstore dump DIR | head -1`."""
    program = "import sys; from mqstore.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "dump", str(golden_store("store"))]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ
    ) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(60) == 0
        assert process.stderr.read() == b""


@pytest.mark.parametrize("output", ["jsonl", "csv"])
def test_an_output_that_is_full_is_said_once(golden_store, output):
    program = "import sys; from mqstore.cli import main; sys.exit(main())"
    words = ["dump", str(golden_store("store")), "--output", output]
    with open("/dev/full", "wb") as full:
        run = subprocess.run(
            [sys.executable, "-c", program, *words],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    assert (run.returncode, run.stderr) == (1, "mqstore: No space left on device\n")


def test_dump_marks_a_damaged_body(run, golden_store):
    store = golden_store("store-damaged")
    rows = lines(run("dump", store, "--offset", 219148, "--count", 2)[1])
    assert ["damaged" in row.get("bodyError", "") for row in rows] == [True, False]


def test_dump_goes_on_behind_damage_and_exits_5(run, golden_store, tmp_path):
    root = shutil.copytree(golden_store("store"), tmp_path / "store")
    with (root / "commitlog" / f"{0:020}").open("r+b") as log:
        log.seek(190)
        log.write(bytes(30))
    code, out, err = run("dump", root, "--topic", "TopicTest", "--body", "none")
    assert (code, [row["commitLogOffset"] for row in lines(out)][:2]) == (5, [0, 380])
    assert err == (
        "mqstore: skipped 190 unreadable bytes of the log at offset 190; for details: "
        f"mqstore verify {root}\n"
    )
    assert run("dump", root, "--count", 1)[0] == 0  # it ended before
