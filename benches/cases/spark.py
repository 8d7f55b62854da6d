"""Spark with our broker: reads and writes of 1 KiB messages, compared with PySpark's best rate.

The yardstick is a Python data source that yields the same Arrow batches from memory. The broker and
Spark (`local[2]`) share the cores. A round runs all rows, one after another.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benches.lib.harness import ROOT, BenchFailed, Mode, Report, mode_of, verdict
from benches.lib.loads import BACKLOG_TOPIC, make_backlog
from benches.lib.servers import Ours
from mqstore.offline import open as open_store

MESSAGES = {"smoke": 2_000, "large": 400_000}
TASKS = 4
"""Number of tasks of each read, including the reads of the yardstick."""
THREE_COLUMNS = "queue_id int, queue_offset long, store_timestamp timestamp"
SINK_TOPIC = "BenchSparkSink"
YARDSTICK, YARDSTICK_OF_THREE = "yardstick, all columns", "yardstick, three columns"
PARQUET, PARQUET_OF_THREE = "Parquet, all columns", "Parquet, three columns"
GOALS = {"batch read, all columns": 0.5, "store read, all columns": 0.8}
"""Lowest rate, as a share of the yardstick's rate."""
METHOD = "1 KiB, local[2] and the broker share the cores, each round runs all rows, medians of {}"


def main(smoke: bool = False) -> None:
    """Run all rows in each round, and print their rates relative to the yardstick and to
    Parquet."""
    mode = mode_of(smoke)
    if shutil.which("java") is None:
        raise BenchFailed("no `java` on the PATH: Spark needs Java 17")
    with (
        tempfile.TemporaryDirectory(prefix="mqbench-") as scratch,
        Ours(Path(scratch) / "ours", {}) as cluster,
        session(Path(scratch)) as spark,
    ):
        make_backlog(cluster, MESSAGES[mode.name])
        end = open_store(cluster.folder / "store").end_physical_offset()
        bench = Bench(spark, cluster, Path(scratch), mode, end)
        rates, costs = _rounds(bench.rows(), mode.rounds)
    report = Report("spark", mode, METHOD.format(mode.rounds))
    report.rows += [_row(name, rates, costs) for name in rates]
    report.finish()


Row = Callable[[], int]
"""Runs once and returns the number of messages that it read or wrote."""
Rates = dict[str, list[float]]


def _rounds(rows: dict[str, Row], rounds: int) -> tuple[Rates, Rates]:
    """Messages per second and CPU seconds per message of each row, in each round.

    A first round does not count. CPU is the time of all processes, including the broker.
    """
    rates: Rates = {name: [] for name in rows}
    costs: Rates = {name: [] for name in rows}
    for round_number in range(rounds + 1):
        for name, run in rows.items():
            used, started = _cpu_seconds(), time.monotonic()
            count = run()
            rate, cost = count / (time.monotonic() - started), (_cpu_seconds() - used) / count
            print(f"{name}: {rate:,.0f}, {cost * 1e6:.2f} us", file=sys.stderr, flush=True)
            if round_number > 0:
                rates[name].append(rate)
                costs[name].append(cost)
    return rates, costs


def _cpu_seconds() -> float:
    """CPU time of this process and its descendants, including the ended ones."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it ended
            continue
        parents[int(folder.name)] = int(fields[1])
        ticks[int(folder.name)] = sum(map(int, fields[11:15]))
    ours = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return sum(ticks[pid] for pid in ours) / os.sysconf("SC_CLK_TCK")


def _row(name: str, rates: Rates, costs: Rates) -> dict[str, Any]:
    three = "three columns" in name
    row: dict[str, Any] = {"case": name, "rows_per_s": statistics.median(rates[name])}
    row["cpu_us_per_row"] = statistics.median(costs[name]) * 1e6
    beside = {
        "of_yardstick": YARDSTICK_OF_THREE if three else YARDSTICK,
        "of_parquet": PARQUET_OF_THREE if three else PARQUET,
    }
    for column, other in beside.items():
        pairs = zip(rates[name], rates[other], strict=True)
        row[column] = statistics.median(rate / base for rate, base in pairs)
    if name in GOALS:
        row["goal"] = f">= {GOALS[name]:g} of the yardstick"
        row["met"] = verdict(row["of_yardstick"] >= GOALS[name])
    return row


@dataclass
class Bench:
    """The rows of a run."""

    spark: Any
    cluster: Ours
    scratch: Path
    mode: Mode
    backlog_end: int
    """The end offset of the log before the writes of this run."""

    def rows(self) -> dict[str, Row]:
        """Each row by its name, in the order of a round."""
        from benches.lib.spark_memory import MemorySource

        self.spark.dataSource.register(MemorySource)
        everything, three = self._batches(None), self._batches(THREE_COLUMNS)
        parquet = str(self.scratch / "parquet")
        self._read().write.parquet(parquet)
        read_parquet = self.spark.read.parquet
        return {
            YARDSTICK: self._reads(lambda: self._yardstick(everything)),
            "batch read, all columns": self._reads(self._read),
            PARQUET: self._reads(lambda: read_parquet(parquet)),
            YARDSTICK_OF_THREE: self._reads(lambda: self._yardstick(three)),
            "batch read, three columns": self._reads(lambda: self._read(THREE_COLUMNS)),
            PARQUET_OF_THREE: self._reads(
                lambda: self.spark.read.schema(THREE_COLUMNS).parquet(parquet)
            ),
            "store read, all columns": self._reads(self._store),
            "streaming read, all columns": self._stream,
            "write": lambda: self._write(read_parquet(parquet)),
            "tasks of the batch read, without Spark": self._tasks,
        }

    def _reads(self, frame: Callable[[], Any]) -> Row:
        def run() -> int:
            frame().write.format("noop").mode("overwrite").save()
            return MESSAGES[self.mode.name]

        return run

    def _options(self) -> dict[str, str]:
        topic = {"topic": BACKLOG_TOPIC, "partitions": str(TASKS)}
        return {"namesrv": self.cluster.namesrv, **topic}

    def _read(self, schema: str | None = None) -> Any:
        reader = self.spark.read.format("rocketmq").options(**self._options())
        return (reader.schema(schema) if schema else reader).load()

    def _store(self) -> Any:
        reader = self.spark.read.format("rocketmq-store").option("topic", BACKLOG_TOPIC)
        reader = reader.option("endingOffset", self.backlog_end)
        return reader.load(str(self.cluster.folder / "store"))

    def _stream(self) -> int:
        reader = self.spark.readStream.format("rocketmq").options(**self._options())
        frame = reader.option("startingOffsets", "earliest").load()
        with tempfile.TemporaryDirectory(dir=self.scratch) as checkpoint:
            query = (
                frame.writeStream.format("noop")
                .option("checkpointLocation", checkpoint)
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
        return sum(progress["numInputRows"] for progress in query.recentProgress)

    def _write(self, frame: Any) -> int:
        sink = frame.select("body", "tags", "keys").write.format("rocketmq")
        sink.option("namesrv", self.cluster.namesrv).option("topic", SINK_TOPIC)
        sink.mode("append").save()
        return MESSAGES[self.mode.name]

    def _tasks(self) -> int:
        """Run the tasks of a read one after another in this process, as a Spark worker does."""
        from mqpipeline.spark.topics.source import RocketMQDataSource

        source = RocketMQDataSource(self._options())
        reader = source.reader(source.schema())
        return sum(batch.num_rows for task in reader.partitions() for batch in reader.read(task))

    def _batches(self, schema: str | None) -> dict[str, str]:
        """Options of the yardstick: a file with one batch of the broker's rows, and its
        repetitions."""
        import pyarrow as pa

        table = self._read(schema).limit(10_000).toArrow()
        path = self.scratch / f"{len(table.column_names)}-columns.arrow"
        with pa.ipc.new_file(path, table.schema) as file:
            file.write_batch(table.combine_chunks().to_batches()[0])
        times = -(-MESSAGES[self.mode.name] // table.num_rows)
        return {"path": str(path), "times": str(times), "tasks": str(TASKS)}

    def _yardstick(self, options: dict[str, str]) -> Any:
        return self.spark.read.format("bench-memory").options(**options).load()


@contextmanager
def session(scratch: Path, cores: int = 2) -> Iterator[Any]:
    """A Spark session with `cores` cores, whose workers run this Python."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    search_path = (str(ROOT), os.environ.get("PYTHONPATH", ""))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, search_path))
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.local.dir": str(scratch / "local"),
        "spark.driver.memory": "2g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.log.level": "ERROR",
    }
    spark = SparkSession.builder.master(f"local[{cores}]").config(map=settings).getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()
