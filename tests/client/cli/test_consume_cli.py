"""`mqclient consume`, `tail` and `request` against our own servers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from mqclient import Admin, Message, MessageQueue, Producer, PushConsumer, reply
from mqclient import RocketMQError as MQError
from mqclient.cli import main
from mqclient.cli.reading import Reading, _Reader
from mqserver.embedded.standalone import Standalone
from tests.waiting import until

BODIES = [f"body {i}" for i in range(8)]


@pytest.fixture(scope="module")
def topic(mq: Standalone) -> str:
    """A topic with two messages in each of its four queues."""
    fill(mq, "Read", BODIES)
    return "Read"


def fill(mq: Standalone, topic: str, bodies: list[str]) -> None:
    with Producer(mq.namesrv) as producer:
        for i, body in enumerate(bodies):
            message = Message(topic, body.encode(), tags="odd" if i % 2 else "even", keys=f"k{i}")
            producer.send(message)
        queues = producer.queues(topic)
    with Admin(mq.namesrv) as admin:
        assert until(lambda: sum(map(admin.offsets.maximum, queues)) == len(bodies))


class Run:
    """Runs `mqclient` in this process."""

    def __init__(self, mq: Standalone, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
        self._namesrv, self._captured = mq.namesrv, capsysbinary

    def __call__(self, *words: str, code: int = 0) -> list[str]:
        """The lines of standard output."""
        assert main([*words, "-n", self._namesrv]) == code, self._captured.readouterr().err
        self.out, self.err = (stream.decode() for stream in self._captured.readouterr())
        return self.out.splitlines()


@pytest.fixture
def run(mq: Standalone, capsysbinary: pytest.CaptureFixture[bytes]) -> Run:
    return Run(mq, capsysbinary)


def test_tail_ends_at_the_end(run: Run, topic: str) -> None:
    assert sorted(run("tail", topic, "--from", "earliest", "-E", "-f", r"%s\n")) == BODIES
    assert run("tail", topic, "-E") == [], "the end is where it begins"
    ago = run("tail", "--topic", topic, "--from", "-1h", "--exit-at-end", "--output", "jsonl")
    assert sorted(json.loads(line)["body"] for line in ago) == BODIES
    assert (
        len(json.loads("".join(run("tail", topic, "--from", "-1h", "-E", "--output", "json")))) == 8
    )
    head, *rows = run("tail", topic, "--from", "-1h", "-E", "--output", "csv")
    assert (head, len(rows)) == ("storeTime,queueId,queueOffset,tags,keys,body", 8)


def test_the_end_comes_while_producers_go_on(run: Run, mq: Standalone) -> None:
    fill(mq, "Busy", BODIES)
    over = threading.Event()

    def go_on() -> None:
        with Producer(mq.namesrv) as producer:
            while not over.is_set():
                producer.send(Message("Busy", b"later"), timeout=30)

    busy = threading.Thread(target=go_on)
    with Admin(mq.namesrv) as admin, Producer(mq.namesrv) as producer:
        queues = producer.queues("Busy")
        busy.start()
        try:
            assert until(lambda: sum(map(admin.offsets.maximum, queues)) > 40)
            words = ("consume", "Busy", "-g", "cli_busy", "--from", "earliest", "-E")
            lines = run(*words, "-f", r"%s\n")
            progress = admin.offsets.progress("cli_busy", "Busy").offset_table.values()
        finally:
            over.set()
            busy.join()
    assert sorted(set(lines) - {"later"}) == BODIES
    assert sum(offset.consumer_offset for offset in progress) == len(lines)


async def test_a_lost_queue_is_left_to_its_next_owner() -> None:
    queue = MessageQueue("T", "b", 0)
    committed: list[dict[MessageQueue, int]] = []

    class Consumer:
        async def commit(self, what: dict[MessageQueue, int]) -> None:
            committed.append(dict(what))

    class Handling:
        handled = {queue: 3}

    plan = Reading(
        topic="T", tags="*", start="latest", queues=(), offset=None, count=None,
        exit_at_end=False, connection={},
    )  # fmt: skip
    reader = _Reader(Consumer(), plan, Handling(), "g")  # type: ignore[arg-type]
    await reader._revoked([queue])
    assert committed == [{queue: 3}]
    Handling.handled[queue] = 5  # a command that was still running
    await reader.commit()
    await reader._assigned([queue])
    await reader.commit()
    assert committed == [{queue: 3}], "its owner may be further by now"
    Handling.handled[queue] = 9
    await reader.commit()
    assert committed == [{queue: 3}, {queue: 9}]


def test_tags_that_nothing_has_end_too(run: Run, topic: str) -> None:
    assert run("tail", topic, "--from", "earliest", "-E", "--tags", "none") == []
    odd = run("tail", topic, "--from", "earliest", "-E", "--tags", "odd || other", "-f", r"%g\n")
    assert odd == ["odd"] * 4


def test_queues_and_offsets(run: Run, topic: str) -> None:
    form = ("-E", "-f", r"%b:%p %o %k\n")
    last = run("tail", topic, "--queue", "1", "--offset", "-1", *form)
    name, *rest = last[0].split()
    assert name.endswith(":1")
    assert rest[0] == "1"
    assert len(run("tail", topic, "--queue", name, "--offset", "0", *form)) == 2
    run("tail", topic, "--queue", "9", *form, code=2)
    assert "it has" in run.err
    run("tail", topic, "--queue", "1", "--offset", "5", *form, code=2)
    assert "has no offset 5" in run.err
    run("tail", topic, "--offset", "5", *form, code=2)
    assert "--offset needs --queue" in run.err


def test_a_group_commits_what_it_has_written(run: Run, topic: str) -> None:
    words = ("consume", topic, "-g", "cli_printers", "--from", "earliest", "-E", "-f", r"%s\n")
    first = run(*words, "--count", "3")
    assert len(first) == 3
    assert sorted(first + run(*words)) == BODIES
    assert run(*words) == []


def test_a_command_runs_for_each_message(run: Run, topic: str, tmp_path: Path) -> None:
    command = (
        f'cat > {tmp_path}/"$MQ_KEYS"; echo "$MQ_TAGS $MQ_QUEUE_OFFSET" >> {tmp_path}/"$MQ_KEYS"'
    )
    words = ("consume", topic, "-g", "cli_runners", "--from", "earliest", "-E", "--exec", command)
    run(*words, "--jobs", "4")
    assert {path.name for path in tmp_path.iterdir()} == {f"k{i}" for i in range(8)}
    assert (tmp_path / "k3").read_text().startswith("body 3odd ")
    for path in tmp_path.iterdir():
        path.unlink()
    run(*words)
    assert list(tmp_path.iterdir()) == [], "all of them were committed"


def test_a_failing_command_ends_the_run_and_is_retried(
    run: Run, topic: str, tmp_path: Path
) -> None:
    words = ("consume", topic, "-g", "cli_failing", "--from", "earliest", "-E", "-e")
    note = f'echo "$MQ_KEYS" >> {tmp_path}/seen; '
    run(*words, f"{note} test $MQ_KEYS != k5", code=1)
    assert "the command ended with 1 for message" in run.err
    run(*words, note)
    seen = (tmp_path / "seen").read_text().split()
    assert seen.count("k5") == 2
    assert set(seen) == {f"k{i}" for i in range(8)}
    words = ("consume", topic, "-g", "cli_going", "--from", "earliest", "-E", "-e")
    run(*words, f"{note} test $MQ_KEYS != k5", "--keep-going", code=1)
    assert (tmp_path / "seen").read_text().split().count("k5") == 3
    assert run(*words[:-1], "-f", r"%s\n") == [], "failures are handled under --keep-going"


def test_a_command_that_cannot_be_run_is_said(
    run: Run, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def none(*_words: object, **_options: object) -> None:
        raise OSError(11, "no process can be started")

    monkeypatch.setattr("asyncio.create_subprocess_shell", none)
    run("tail", topic, "--from", "earliest", "-E", "-e", "cat", code=1)
    assert "the command could not be run: [Errno 11] no process can be started" in run.err


def test_a_second_signal_ends_commands_too(mq: Standalone, tmp_path: Path) -> None:
    fill(mq, "Twice", ["one"])
    started, never = tmp_path / "started", tmp_path / "never"
    os.mkfifo(never)
    words = ["consume", "Twice", "-g", "cli_twice", "--from", "earliest", "-n", mq.namesrv]
    command = f"echo $$ > {started}; cat {never}"
    process = subprocess.Popen(
        [sys.executable, "-m", "mqclient.cli", *words, "-e", command], stderr=subprocess.PIPE
    )
    assert until(lambda: started.exists() and started.read_text().endswith("\n"))
    shell = int(started.read_text())
    assert process.stderr is not None
    process.send_signal(signal.SIGINT)
    assert b"waiting for 1 commands; another signal ends them" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    assert process.stderr.read() == b""
    assert process.wait(60) == 130
    assert until(lambda: not Path(f"/proc/{shell}").exists()), "the command was ended"
    with Admin(mq.namesrv) as admin, pytest.raises(MQError):
        admin.offsets.progress("cli_twice")


def test_given_queues_are_committed_for_the_group(run: Run, mq: Standalone, topic: str) -> None:
    run("consume", topic, "-g", "cli_chosen", "--queue", "2", "--from", "earliest", "-E")
    with Admin(mq.namesrv) as admin, Producer(mq.namesrv) as producer:
        (name,) = {queue.broker_name for queue in producer.queues(topic)}
        progress = admin.offsets.progress("cli_chosen", topic).offset_table
        assert progress[MessageQueue(topic, name, 2)].consumer_offset == 2


def test_a_signal_lets_commands_end_and_commits(mq: Standalone, tmp_path: Path) -> None:
    fill(mq, "Signalled", ["one"])
    started, go = tmp_path / "started", tmp_path / "go"
    os.mkfifo(go)
    words = ["consume", "Signalled", "-g", "cli_signalled", "--from", "earliest", "-n", mq.namesrv]
    command = f"touch {started}; cat {go} > {tmp_path}/done"
    process = subprocess.Popen(
        [sys.executable, "-m", "mqclient.cli", *words, "-e", command], stderr=subprocess.PIPE
    )
    assert until(started.exists)
    process.send_signal(signal.SIGTERM)
    with go.open("w") as pipe:  # only now can the command end
        pipe.write("went on")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 143, err
    assert (tmp_path / "done").read_text() == "went on"
    with Admin(mq.namesrv) as admin:
        offsets = admin.offsets.progress("cli_signalled", "Signalled").offset_table.values()
        assert sum(offset.consumer_offset for offset in offsets) == 1


def test_request_prints_the_reply(run: Run, mq: Standalone) -> None:
    with Producer(mq.namesrv) as producer:
        producer.send(Message("Asked", b"first"))

        def answer(messages, _context) -> None:  # type: ignore[no-untyped-def]
            for message in messages:
                if "CORRELATION_ID" in message.properties:
                    producer.send(reply(message, b"re: " + message.body, tags="Answer"))

        with PushConsumer("cli_answering", mq.namesrv, consume_from="earliest") as consumer:
            consumer.subscribe("Asked", "*", answer)
            consumer.wait_assigned()
            said = run("request", "Asked", "Ada", "--timeout", "30", "-f", r"%s %g\n")
            assert said == ["re: Ada Answer"]
            (row,) = map(json.loads, run("request", "-t", "Asked", "Bob", "--timeout", "30"))
            assert row["body"] == "re: Bob"
    run("request", "Asked", "Cy", "--timeout", "0.2", code=3)
    assert "no reply" in run.err
    run("request", "Asked", code=2)
    assert "one BODY" in run.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["tail", "Read", "-f", "%q"], "'%q' means nothing in a format; give %t topic"),
        (["tail", "Read", "-f", "%s", "--output", "json"], "give -f or --output, not both"),
        (["tail", "Read", "-e", "cat", "--output", "json"], "with --exec, the command writes"),
        (["tail", "Read", "--jobs", "2"], "go with --exec only"),
        (["tail", "Read", "-t", "Read"], "given twice"),
        (["tail"], "name a TOPIC"),
        (["consume", "Read", "-g", "a b"], "group 'a b' may hold only"),
        (["tail", "Read", "--from", "-1y"], "'-1y' is not a time"),
        (["tail", "Read", "--tags", "||"], "names no tag"),
    ],
)
def test_what_cannot_be_is_wrong_usage(run: Run, topic: str, words: list[str], said: str) -> None:
    run(*words, code=2)
    assert said in run.err


def test_without_a_reader_everything_is_sent(mq: Standalone) -> None:
    words = [sys.executable, "-m", "mqclient.cli", "send", "Piped", "-n", mq.namesrv]
    sending = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert sending.stdin is not None
    assert sending.stdout is not None
    sending.stdout.close()  # as `| head -0`
    sending.stdin.write(b"".join(b"%d\n" % i for i in range(200)))
    sending.stdin.close()
    assert sending.wait(60) == 0
    assert until(lambda: len(mq.messages("Piped")) == 200)
