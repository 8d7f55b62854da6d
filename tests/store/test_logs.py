"""What the compiled core logs reaches Python's logging."""

import logging
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

    def emit(self, record):
        self.records.append(record)
        self.came.set()


@pytest.fixture
def heard():
    handler = Heard()
    logger = logging.getLogger("mqstore.core")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


def test_an_unreadable_state_file_is_logged_where_an_operator_looks(tmp_path, heard):
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "consumerOffset.json").write_text("not a table")
    (tmp_path / "config" / "consumerOffset.json.bak").write_text('{"offsetTable":{}}')
    with Store(tmp_path, SMALL, create=True):
        assert heard.came.wait(60)
    record = heard.records[0]
    assert (record.name, record.levelname) == ("mqstore.core", "WARNING")
    assert "consumerOffset.json" in record.getMessage()
