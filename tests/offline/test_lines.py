"""JSON lines rendered ahead in threads equal lines rendered one after another."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import zlib
from typing import Any

import pytest

import mqstore
from mqcommon import _core
from mqstore.offline import json_lines
from tests.common.golden import GOLDEN
from tests.common.test_json_lines import MODES

STORES = [path.parent.name for path in GOLDEN.glob("store*/expected.jsonl.gz")]
WANTED = [
    {},
    {"check_crc": True},
    {"topic": "TopicTest"},
    {"topic": "TopicTest", "queue_id": 1, "stop": 40_000},
    {"stop": 20_000},
    {"begin_ms": 0, "end_ms": 2**40},
]


@pytest.mark.parametrize("fields", WANTED, ids=str)
@pytest.mark.parametrize("name", STORES)
def test_lines_and_gaps_of_every_store(golden_store: Any, name: str, fields: Any) -> None:
    reader, wanted = mqstore.open(golden_store(name)), mqstore.Wanted(**fields)
    seen: list[mqstore.Gap] = []
    gaps: list[mqstore.Gap] = []
    for mode in MODES:
        expected = [json_lines(part, mode) for part in reader.walk(None, wanted, gaps.append)]
        found = [bytes(part) for part in reader.lines(mode, None, wanted, seen.append)]
        assert b"".join(found) == b"".join(expected)
    assert seen == gaps


@pytest.fixture(scope="module")
def long_store(tmp_path_factory: pytest.TempPathFactory) -> mqstore.StoreReader:
    """Several chunks in several files; a packed body now and then, one longer than a chunk."""
    root = tmp_path_factory.mktemp("long") / "store"
    settings = mqstore.Settings(commit_log_file_bytes=1 << 20, min_free_bytes=0)
    with mqstore.Store(root, settings, create=True) as store:
        for number in range(2_500):
            body = os.urandom(400_000 if number == 1_000 else 1_000)
            packed = number % 900 == 0
            stored = zlib.compress(body) if packed else body
            store.put("Long", stored, queue_id=number % 3, sys_flag=int(packed))
    return mqstore.open(root)


def test_chunks_keep_their_order(long_store: mqstore.StoreReader) -> None:
    for mode in ("none", "base64"):
        whole = b"".join(json_lines(part, mode) for part in long_store.walk())
        assert b"".join(bytes(part) for part in long_store.lines(mode)) == whole
    assert whole.count(b"\n") == 2_500
    assert b"bodyError" not in whole


def test_what_was_given_stays_while_more_is_made(long_store: mqstore.StoreReader) -> None:
    parts = list(long_store.lines("none"))
    copies = [bytes(part) for part in parts]
    assert len(parts) > 3
    for _ in range(5):
        assert [bytes(part) for part in long_store.lines("none")] == copies
        gc.collect()
    assert [bytes(part) for part in parts] == copies
    assert [len(part) for part in parts] == [len(copy) for copy in copies]
    with memoryview(parts[0]) as view:
        assert view.readonly


def test_leaving_early_ends_the_threads(long_store: mqstore.StoreReader) -> None:
    for _ in range(50):  # if threads were kept, the system would run out of them
        assert next(iter(long_store.lines("hex")))


def test_a_process_may_end_while_threads_run_ahead(long_store: mqstore.StoreReader) -> None:
    program = "import sys, mqstore; print(len(next(iter(mqstore.open(sys.argv[1]).lines('hex')))))"
    words = [sys.executable, "-c", program, str(long_store.path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) > 0


def test_ctrl_c_ends_a_dump(long_store: mqstore.StoreReader) -> None:
    program = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    program += "from mqstore.cli import main; sys.exit(main())"
    words = [sys.executable, "-c", program, "dump", str(long_store.path), "--body", "hex"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as dump:
        assert dump.stdout is not None
        assert dump.stdout.read(100).startswith(b'{"topic": "Long"')
        dump.send_signal(signal.SIGINT)  # it writes into a full pipe
        dump.stdout.close()
        assert dump.wait(60) != 0


def test_what_is_refused(long_store: mqstore.StoreReader) -> None:
    with pytest.raises(ValueError, match=r"none, text, hex or base64, not .xml"):
        list(long_store.lines("xml"))
    with pytest.raises(TypeError):
        _core.LinesAhead(long_store._scan, "0", 1, mqstore.Wanted(), "none")  # type: ignore[arg-type]
