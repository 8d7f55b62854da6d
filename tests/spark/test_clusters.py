"""Executors in processes of their own: `local-cluster`, a standalone master with and without an
environment that is shipped to it, Spark Connect."""

import importlib.util
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
import pyspark

from mqserver import Standalone
from tests.spark.conftest import ROOT, needs_java
from tests.waiting import until

JOB = """
import sys
from pyspark.sql import SparkSession
import mqpipeline.spark.topics
start, namesrv, source, target, folder = sys.argv[1:]
builder = SparkSession.builder
builder = builder.config("spark.driver.bindAddress", "127.0.0.1")
builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.executor.memory", "512m")
spark = (builder.remote("local[2]") if start == "connect" else builder.master(start)).getOrCreate()
mqpipeline.spark.topics.register(spark)

def topic(frame, name):
    return frame.format("rocketmq").option("namesrv", namesrv).option("topic", name)

rows = spark.range(1000).selectExpr("cast(id as string) as body")
topic(rows.write, source).mode("append").save()
read = topic(spark.read, source).option("minPartitions", "4").load()
assert read.count() == 1000
stream = topic(spark.readStream, source).option("startingOffsets", "earliest").load()
sink = topic(stream.select("body").writeStream, target)
query = sink.option("checkpointLocation", folder).trigger(availableNow=True).start()
assert query.awaitTermination(240)
copied = topic(spark.read, target).load().selectExpr("cast(cast(body as string) as int) as n")
assert sorted(row.n for row in copied.collect()) == list(range(1000))
spark.stop()
print("all is well")
"""

WHERE = """
def where(_):
    import mqstore
    return mqstore.__file__

tasks = spark.sparkContext.parallelize(range(2), 2)
print("tasks import", *tasks.map(where).collect(), file=sys.stderr)
assert all("/environment/" in path for path in tasks.map(where).collect())
"""
"""Fails unless the tasks import the shipped environment."""

READY = ("I have been elected leader", "Successfully registered with master")
"""Log lines of a master and a worker that are ready."""


@pytest.fixture(scope="module")
def mq():
    needs_java()
    with Standalone() as mq:
        yield mq


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A SPARK_HOME below which executors may write."""
    home = tmp_path_factory.mktemp("spark-home")
    for path in Path(pyspark.__file__).parent.iterdir():
        (home / path.name).symlink_to(path)
    return home


def environment(home):
    return {
        **os.environ,
        "PYTHONPATH": "",
        "SPARK_HOME": str(home),
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }


def run_job(start, mq, home, folder, job=JOB, **more):
    source, target = mq.topic(queues=2), mq.topic(queues=2)
    run = subprocess.run(
        [sys.executable, "-c", job, start, mq.namesrv, source, target, str(folder / "checkpoint")],
        env=environment(home) | more,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=500,
    )
    said = [line for line in run.stderr.splitlines() if "\tat " not in line and "WARN" not in line]
    assert run.returncode == 0 and "all is well" in run.stdout, "\n".join(said)[:6000]


@pytest.mark.soak  # checks the same as the next test, and takes longer
def test_local_cluster(mq, home, tmp_path):
    run_job("local-cluster[2,1,1024]", mq, home, tmp_path)


@pytest.fixture
def master(home, tmp_path):
    """A standalone master with two workers of one core; gives its URL."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    url = f"spark://127.0.0.1:{port}"
    places = ["--host", "127.0.0.1", "--webui-port", "0"]
    worker = ["worker.Worker", *places, "-c", "1", "-m", "1g"]
    commands = [
        ["master.Master", *places, "--port", port],
        *([*worker, "-d", str(tmp_path / f"worker{number}"), url] for number in (1, 2)),
    ]
    started = []
    try:
        for command in commands:
            log = tmp_path / f"{len(started)}.log"
            name, *words = command
            with log.open("wb") as out:
                started.append(
                    subprocess.Popen(
                        [home / "bin" / "spark-class", f"org.apache.spark.deploy.{name}", *words],
                        env=environment(home),
                        stdout=out,
                        stderr=out,
                        start_new_session=True,
                    )
                )
            assert until(lambda log=log: any(word in log.read_text() for word in READY)), (
                log.read_text()[-3000:]
            )
        yield url
    finally:
        for process in reversed(started):
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def test_a_standalone_master_with_two_workers(mq, home, master, tmp_path):
    run_job(master, mq, home, tmp_path)


@pytest.fixture
def shipped(tmp_path):
    """An environment with mqstack's wheel, packed; the driver's folder has it unpacked."""
    wheels = sorted(ROOT.glob("dist/*.whl"))
    if not wheels:
        pytest.skip("dist/ has no wheel: make wheel")
    python = tmp_path / "environment" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "environment"], check=True)
    install = [python, "-m", "pip", "install", "--quiet", f"{wheels[-1]}[spark]", "venv-pack"]
    subprocess.run(install, check=True)
    archive = tmp_path / "environment.tar.gz"
    pack = [python.parent / "venv-pack", "-q", "-p", python.parent.parent, "-o", archive]
    subprocess.run(pack, check=True)
    return archive


@pytest.mark.soak
def test_an_environment_that_is_shipped(mq, home, master, shipped, tmp_path):
    submit = f"--archives {shipped}#environment pyspark-shell"
    job = JOB.replace("rows = ", WHERE + "rows = ", 1)
    python = {"PYSPARK_PYTHON": "./environment/bin/python"}
    run_job(master, mq, home, tmp_path, job, PYSPARK_SUBMIT_ARGS=submit, **python)


@pytest.mark.soak
@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("grpc", "pandas")),
    reason="Spark Connect's client is not installed: pip install 'pyspark[connect]'",
)
def test_spark_connect(mq, home, tmp_path):
    run_job("connect", mq, home, tmp_path)
