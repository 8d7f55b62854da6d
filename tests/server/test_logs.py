"""A server's log: a flood is a line and a count, files roll, stats.log has RocketMQ's lines."""

from __future__ import annotations

import logging
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mqserver.broker.stats.log import StatsLog
from mqserver.broker.stats.statistics import Counted, Statistics
from mqserver.config.load import load, pairs
from mqserver.config.namesrv_table import NAMESRV
from mqserver.embedded.testing import free_port
from mqserver.runtime.logs import KINDS_MAX, FloodHandler, set_up
from tests.waiting import until


class Kept(logging.Handler):
    """Keeps the texts."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


class Flood:
    """A logger with a FloodHandler, and a clock that stands still until moved."""

    def __init__(self) -> None:
        self.time = 100.0
        self.kept = Kept()
        self.handler = FloodHandler([self.kept], period=10.0, now=lambda: self.time)
        self.log = logging.Logger("flooded")
        self.log.addHandler(self.handler)

    @property
    def lines(self) -> list[str]:
        return self.kept.lines


@pytest.fixture
def flood() -> Flood:
    return Flood()


def test_a_flood_of_one_error_is_a_line_and_a_count(flood: Flood) -> None:
    for number in range(1000):
        flood.log.error("connection %d: a bad frame of %d bytes", number, 7 * number)
    assert flood.lines == ["connection 0: a bad frame of 0 bytes"]
    flood.time += 11
    flood.log.warning("something else")
    assert flood.lines[1:] == [
        "connection 999: a bad frame of 6993 bytes (and 998 more like it in 10 s)",
        "something else",
    ]


def test_while_it_goes_on_there_is_one_line_a_period(flood: Flood) -> None:
    for _ in range(50):
        for number in range(20):
            flood.log.error("error %d", number)
        flood.time += 1
    flood.handler.flush()
    assert len(flood.lines) == 1 + 5
    told = [int(found[1]) for line in flood.lines if (found := re.search(r"and (\d+) more", line))]
    assert sum(told) + len(flood.lines) == 1000, "nothing is lost"


def test_the_count_is_told_when_nothing_else_is_logged() -> None:
    kept = Kept()
    handler = FloodHandler([kept], period=0.05)
    log = logging.Logger("flooded")
    log.addHandler(handler)
    for _ in range(3):
        log.error("again")
    assert until(lambda: len(kept.lines) >= 2)
    assert kept.lines == ["again", "again (and 1 more like it in 0.05 s)"]
    handler.close()


def test_what_differs_in_words_or_level_is_told(flood: Flood) -> None:
    flood.log.error("a is gone")
    flood.log.error("b is gone")
    flood.log.warning("a is gone")
    flood.log.error("a is gone")
    flood.handler.close()
    assert flood.lines == ["a is gone", "b is gone", "a is gone", "a is gone"]


def test_a_bad_call_does_not_stop_its_caller(
    flood: Flood, capsys: pytest.CaptureFixture[str]
) -> None:
    flood.log.error("%d bytes", "many")
    flood.log.error("%d bytes", 7)
    assert flood.lines == ["7 bytes"]
    assert "Logging error" in capsys.readouterr().err


def test_kinds_are_bounded(flood: Flood) -> None:
    words = [chr(97 + n % 26) * (1 + n // 26) for n in range(3 * KINDS_MAX)]
    for word in words:
        flood.log.error("topic %s", word)
    assert len(flood.lines) == len(words)
    assert len(flood.handler._seen) == KINDS_MAX


def test_files_roll_and_the_oldest_go(tmp_path: Path) -> None:
    settings = {"logDir": str(tmp_path / "logs"), "logFileBytes": "4096", "logFileCount": "2"}
    root, stats = logging.getLogger(), logging.getLogger("mqserver.stats")
    before = root.handlers[:], root.level
    set_up(load(NAMESRV, flags=pairs(settings, "test")), "namesrv")
    try:
        for number in range(500):
            logging.getLogger("mqserver.namesrv").info("line %s", chr(97 + number % 26) * number)
        names = sorted(path.name for path in (tmp_path / "logs").iterdir())
        assert names == ["namesrv.log", "namesrv.log.1", "namesrv.log.2", "stats.log"]
        assert all(path.stat().st_size <= 4096 for path in (tmp_path / "logs").iterdir())
    finally:
        for handler in {*root.handlers} - {*before[0]}:
            root.removeHandler(handler)
            handler.close()
        root.setLevel(before[1])
        for handler in stats.handlers[:]:
            stats.removeHandler(handler)
            handler.close()
        stats.propagate, stats.level = True, logging.NOTSET


def test_stats_lines_are_rocketmqs(caplog: pytest.LogCaptureFixture) -> None:
    now_ms = [0]
    statistics = Statistics(Counted("C", queues=False), lambda: now_ms[0])
    lines = StatsLog(statistics, lambda: now_ms[0] / 1000)
    caplog.set_level(logging.INFO, "mqserver.stats")
    statistics.sample()
    statistics.put("T", messages=30, size=3000)
    for _ in range(6):
        now_ms[0] += 10_000
        statistics.sample()
        lines.look()
    assert caplog.messages == [
        "[TOPIC_PUT_NUMS] [T] Stats In One Minute, SUM: 30 TPS: 0.50 AVGPT: 30.00",
        "[TOPIC_PUT_SIZE] [T] Stats In One Minute, SUM: 3000 TPS: 50.00 AVGPT: 3000.00",
        "[BROKER_PUT_NUMS] [C] Stats In One Minute, SUM: 30 TPS: 0.50 AVGPT: 0.00",
    ]
    caplog.clear()
    for _ in range(60):
        now_ms[0] += 10_000
        statistics.sample()
        lines.look()
    assert not [line for line in caplog.messages if "Minute" in line], "they did not move since"


def test_a_server_writes_its_log_where_it_is_told(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    words = [f"listenPort={free_port()}", "bindAddress=127.0.0.1", f"logDir={logs}"]
    words += [f"kvConfigPath={tmp_path / 'kv.json'}"]
    (tmp_path / "namesrv.conf").write_text("noSuchKey=1\n")
    command = [sys.executable, "-m", "mqserver.cli", "namesrv", "start"]
    command += ["-c", str(tmp_path / "namesrv.conf")]
    for word in words:
        command += ["--set", word]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        assert "boot success" in server.stdout.readline()
    finally:
        server.send_signal(signal.SIGTERM)
        _, errors = server.communicate(timeout=60)
    text = (logs / "namesrv.log").read_text()
    assert "INFO The Name Server boot success" in text
    assert "unknown key noSuchKey" in text and "unknown key noSuchKey" in errors
    assert "boot success" not in errors
    (warning,) = [line for line in errors.splitlines() if "noSuchKey" in line]
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} WARNING ", warning), warning
    assert " WARNING " in next(line for line in text.splitlines() if "noSuchKey" in line)


def test_a_folder_that_cannot_be_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    command = [sys.executable, "-m", "mqserver.cli", "namesrv", "start"]
    command += ["--set", f"logDir={tmp_path / 'file' / 'logs'}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1 and "logs" in done.stderr
