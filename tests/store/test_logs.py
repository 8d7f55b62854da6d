"""Log lines of the compiled core reach Python's logging."""

import logging
import re
import subprocess
import sys
import threading

import pytest

from mqstore import Settings, Store

SMALL = Settings(commit_log_file_bytes=1 << 20, index_slots=100, index_entries=400)


class Heard(logging.Handler):
    """Keeps the records and tells when one came."""

    def __init__(self):
        super().__init__()
        self.records = []
        self.came = threading.Event()
        self.news = threading.Condition()

    def emit(self, record):
        with self.news:
            self.records.append(record)
            self.news.notify_all()
        self.came.set()

    def wait_for(self, pattern):
        """The first line that matches, once it is there."""

        def found():
            lines = (record.getMessage() for record in self.records)
            return next(filter(re.compile(pattern).match, lines), None)

        with self.news:
            assert self.news.wait_for(found, 60), "no such line"
            return found()


@pytest.fixture
def heard():
    handler = Heard()
    logger = logging.getLogger("mqstore.core")
    logger.addHandler(handler)
    level = logger.level
    logger.setLevel(logging.INFO)
    yield handler
    logger.setLevel(level)
    logger.removeHandler(handler)


def test_an_unreadable_state_file_is_logged_for_operators(tmp_path, heard):
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "consumerOffset.json").write_text("not a table")
    (tmp_path / "config" / "consumerOffset.json.bak").write_text('{"offsetTable":{}}')
    with Store(tmp_path, SMALL, create=True):
        assert heard.came.wait(60)
        heard.wait_for(".*consumerOffset.json")
    warnings = [record for record in heard.records if record.levelno == logging.WARNING]
    # The lines of an earlier test may come only now.
    here = [record for record in warnings if str(tmp_path) in record.getMessage()]
    assert [record.name for record in here] == ["mqstore.core"] * 2
    damaged, used = (record.getMessage() for record in here)
    assert damaged.startswith("ignored a damaged state file") and "no JSON at byte 0" in damaged
    assert used.startswith("consumerOffset.json is damaged: its previous copy is used")


def test_the_check_after_a_clean_stop_logs_what_it_read(tmp_path, heard):
    with Store(tmp_path, SMALL, create=True) as store:
        end = [store.put("TopicTest", b"x" * 5_000) for _ in range(9)][-1].physical_offset
    with Store(tmp_path, SMALL):
        line = heard.wait_for("checked .*: no damage")
        checked = int(re.match("checked ([0-9]+) bytes of the commit log from offset 0", line)[1])
        assert checked > end
    with open(tmp_path / "commitlog" / ("0" * 20), "r+b") as log:
        log.seek(end // 2)
        log.write(bytes(100))
    with Store(tmp_path, SMALL):
        assert heard.wait_for("checked .*: 1 damaged range, overwritten with blank records")


def test_the_thread_that_forwards_lines_makes_no_logger():
    """Another thread may iterate over the loggers meanwhile, as pytest does at each test."""
    lines = "import logging, mqcommon.core_logs; print(*sorted(logging.root.manager.loggerDict))"
    run = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, check=True)
    assert {"mqstore.core", "mqserver.core", "mqclient.core"} <= set(run.stdout.split())
