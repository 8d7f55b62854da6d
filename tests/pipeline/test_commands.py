"""The command line: plans, tables, exit codes, and one line per error."""

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from mqclient import Message, Producer
from mqpipeline.cli.main import _cause, main
from mqpipeline.lake import storage

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="session")
def topic(mq):
    topic = mq.topic("Commands", queues=2)
    with Producer(mq.namesrv, queue_index_start=0) as producer:
        for i in range(6):
            producer.send(Message(topic, b"%d" % i))
    mq.wait_dispatched()
    return topic


@pytest.fixture
def run(mq, capsys, monkeypatch, plain):
    """Runs the command in this process, with a stand-in for Spark."""
    monkeypatch.setattr("mqpipeline.cli.options.open_session", lambda *_: plain())

    def run(job, *words):
        code = main([job, *map(str, words)])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def test_to_lake_from_plan_to_summary(run, mq, topic, tmp_path):
    words = (topic, "--lake", tmp_path / "lake", "-n", mq.namesrv)
    code, out, _ = run("to-lake", *words, "--dry-run")
    assert code == 0 and not (tmp_path / "lake").exists()
    assert [json.loads(line) for line in out.splitlines()] == [
        {"topic": topic, "broker": "broker-a", "queue": queue, "first": 0, "end": 3, "rows": 3,
         "rounds": 1}
        for queue in (0, 1)
    ]  # fmt: skip
    code, out, _ = run("to-lake", *words, "--output", "json")
    (row,) = json.loads(out)
    assert code == 0 and row.pop("bytes") > 0
    assert row == {"topic": topic, "queues": 2, "messages": 6, "files": 2, "unparsed": 0,
                   "lost": 0, "lag": 0}  # fmt: skip
    assert "messages" in run("to-lake", *words, "--output", "table")[1]


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (("Missing",), 1, "mqpipeline: no route for topic 'Missing'"),
        (("TOPIC", "--option", "x"), 2, "--option 'x': give KEY=VALUE"),
        (("TOPIC", "--option", "tags_=x"), 2, "no option 'tags_'; did you mean tags"),
        (("TOPIC", "--address-map", "x"), 2, "address map 'x' must be HOST:PORT=HOST:PORT"),
        (("TOPIC", "--credentials", "/no/file.yml"), 1, "/no/file.yml: No such file"),
        (("TOPIC", "--conf", "x"), 2, "--conf 'x': give KEY=VALUE"),
        (("TOPIC", "--from", "noon"), 2, "'noon' is not a time"),
        (("TOPIC", "--body", "json"), 2, "--body and --schema must be given together"),
        (("TOPIC", "--format", "orc"), 2, "'orc' is not one of"),
        (("TOPIC", "-n", "127.0.0.1:1", "--option", "timeout=1"), 3, "127.0.0.1:1"),
        (("TOPIC", "--name", "lake"), 2, "--name 'lake'"),
    ],
)
def test_what_is_wrong_is_one_line(run, mq, topic, tmp_path, words, code, error):
    words = [topic if word == "TOPIC" else word for word in words]
    given = ("-n", mq.namesrv, "--lake", tmp_path / "lake")
    ended, out, err = run("to-lake", *given, *words)
    assert (ended, out) == (code, "") and error in err, err
    assert "Traceback" not in err and not list((tmp_path).rglob("*.json"))


def test_what_is_not_installed_is_named(run, mq, topic, tmp_path, monkeypatch):
    words = (topic, "--lake", tmp_path, "-n", mq.namesrv)
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert "Spark needs Java 17" in run("to-lake", *words)[2]
    from importlib.metadata import PackageNotFoundError

    def none(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr("mqpipeline.jobs.session.version", none)
    assert "'mqstack[pipeline]' 'pyspark>=4.2'" in run("to-lake", *words)[2]
    monkeypatch.setattr("mqpipeline.jobs.session.version", lambda name: "4.1.2")
    assert "PySpark 4.1.2 is too old" in run("to-lake", *words)[2]


def test_without_pyarrow_the_extra_is_named(tmp_path):
    script = "import sys; sys.modules['pyarrow'] = None\n"
    script += "from mqpipeline.cli.main import main; sys.exit(main(sys.argv[1:]))"
    words = [sys.executable, "-c", script, "to-lake", "T", "--lake", str(tmp_path)]
    run = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 1
    assert run.stderr == "mqpipeline: the jobs need pyarrow: pip install 'mqstack[pipeline]'\n"


SCRIPT = """
import sys
import mqpipeline.cli.options
from mqpipeline.cli.main import main
from tests.pipeline.in_process import InProcess

mqpipeline.cli.options.open_session = lambda *_: InProcess()
sys.exit(main(sys.argv[1:]))
"""


def test_follow_reads_what_comes_until_it_is_told_to_stop(mq, tmp_path):
    topic = mq.topic("Followed", queues=1)
    words = ["to-lake", topic, "--lake", str(tmp_path), "-n", mq.namesrv, "--follow"]
    command = [sys.executable, "-c", SCRIPT, *words, "--every", "0.1"]
    run = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    kill = threading.Timer(60, run.kill)
    kill.start()
    try:
        assert run.stdout
        for count in (1, 2):
            with Producer(mq.namesrv) as producer:
                for i in range(count):
                    producer.send(Message(topic, b"%d" % i))
            seen = 0
            while seen < count:
                seen += json.loads(run.stdout.readline())["messages"]
        run.send_signal(signal.SIGTERM)
        assert run.wait(30) == 0
    finally:
        kill.cancel()
        run.kill()


def test_recover_says_what_it_would_read(run, tmp_path):
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    code, out, err = run("recover", tmp_path / "store", "--lake", tmp_path / "lake", "--dry-run")
    assert (code, out, err) == (0, "", "")
    code, _, err = run("recover", tmp_path, "--lake", tmp_path / "lake")
    assert code == 2 and "has no folder commitlog" in err


def test_the_cause_of_an_error_of_spark_is_its_last_line():
    text = """An error occurred while calling o53.save.
: org.apache.spark.SparkException: Job aborted
Traceback (most recent call last):
  File "worker.py", line 5, in main
    process()
mqpipeline.spark.topics.cluster.DataLossError: offset 5 is gone
\tat org.apache.spark.api.python.BasePythonRunner
"""
    assert _cause(text) == "offset 5 is gone"
    assert _cause("\n") == "Spark failed without an error message"


@pytest.mark.parametrize(
    ("lake", "why"),
    [
        ("foo://bucket/lake", "Unrecognized filesystem type"),
        ("gs://anonymous@bucket/lake?scheme=http&endpoint_override=127.0.0.1:1", "UNAVAILABLE"),
        ("s3://bucket/lake?scheme=http&endpoint_override=127.0.0.1:1&region=x", "NETWORK"),
    ],
)
def test_a_lake_that_cannot_be_reached_is_named(run, monkeypatch, topic, lake, why):
    monkeypatch.setattr(storage, "GCS_RETRY_SECONDS", 1)
    code, _, said = run("to-lake", topic, "--lake", lake, "-n", "127.0.0.1:1")
    assert (code, f"lake {lake} cannot be used: " in said, why in said) == (2, True, True), said
