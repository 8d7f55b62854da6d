"""Exports: every format there and back, whole or not at all, damage left out and said."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mqstore
from mqclient.cli.exported import ExportedMessage, read_export
from mqcommon.export_formats import FORMATS, format_of
from mqstore.cli import main
from mqstore.offline.export import export
from mqstore.offline.formats import whole_file
from tests.examples import examples

FIELDS = [
    "topic", "queue_id", "body", "properties", "flag", "sys_flag", "born_timestamp_ms",
    "reconsume_times",
]  # fmt: skip
SMALL = mqstore.Settings(
    commit_log_file_bytes=1 << 20,
    index_slots=100,
    index_entries=400,
    min_free_bytes=0,
    allocate_step_bytes=1 << 16,
)


def fields(message: mqstore.ReceivedMessage | ExportedMessage) -> list[Any]:
    return [getattr(message, name) for name in FIELDS]


@pytest.mark.parametrize("name", FORMATS)
def test_every_field_comes_back(golden_store: Any, tmp_path: Path, name: str) -> None:
    reader = mqstore.open(golden_store("store"))
    file = tmp_path / f"out.{name}"
    report = export(reader, file, everything=True)
    messages = list(reader.records())
    assert (report.messages, report.kept_back, report.damaged) == (605, 0, False)
    assert [fields(m) for m in read_export(file)] == [fields(m) for m in messages]
    assert [p.name for p in tmp_path.iterdir()] == [file.name]


def test_what_no_consumer_would_get_is_kept_back(golden_store: Any, tmp_path: Path) -> None:
    reader = mqstore.open(golden_store("store"))
    report = export(reader, tmp_path / "out.jsonl")
    assert (report.messages, report.kept_back) == (576, 29)
    topics = {m.topic for m in read_export(tmp_path / "out.jsonl")}
    assert "SCHEDULE_TOPIC_XXXX" in topics  # two hours had not passed
    assert not {t for t in topics if t.startswith(("RMQ_SYS_", "%RETRY%"))}
    # A topic that is asked for by name is given.
    named = mqstore.Wanted(topic="%RETRY%golden_retry")
    assert export(reader, tmp_path / "retry.jsonl", named).messages > 0


text = st.text(
    st.characters(codec="utf-8", exclude_characters="\x01\x02", exclude_categories=["Cs"]),
    min_size=1,
    max_size=12,
)


@examples(12)
@given(
    bodies=st.lists(st.binary(min_size=1, max_size=200), min_size=1, max_size=12),
    properties=st.dictionaries(text, text, max_size=5),
    flag=st.integers(-(2**31), 2**31 - 1),
    born_ms=st.integers(0, 2**42),
)
def test_any_body_and_property_comes_back(
    tmp_path_factory: pytest.TempPathFactory,
    bodies: list[bytes],
    properties: dict[str, str],
    flag: int,
    born_ms: int,
) -> None:
    directory = tmp_path_factory.mktemp("any")
    stored = mqstore.encode_properties(properties)
    with mqstore.Store(directory / "store", SMALL, create=True) as store:
        for body in bodies:
            store.put(
                "Any", body, queue_id=3, flag=flag, properties=stored, born_timestamp_ms=born_ms
            )
    reader = mqstore.open(directory / "store")
    messages = [fields(m) for m in reader.records()]
    assert len(messages) == len(bodies)
    for name in FORMATS:
        export(reader, directory / f"out.{name}", everything=True)
        assert [fields(m) for m in read_export(directory / f"out.{name}")] == messages, name
    shutil.rmtree(directory)


def test_damage_is_left_out_and_said(
    golden_store: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "out.jsonl"
    code = main(["export", str(golden_store("store-damaged")), "--to", str(file)])
    said = capsys.readouterr()
    (row,) = map(json.loads, said.out.splitlines())
    assert (code, row["gaps"], row["gapBytes"]) == (5, 1, 196)
    assert "196 bytes of damaged records in 1 places" in said.err
    offsets = [json.loads(line)["commitLogOffset"] for line in file.read_text().splitlines()]
    assert 219148 not in offsets
    assert max(offsets) > 219148


@pytest.mark.parametrize("name", FORMATS)
def test_an_export_that_fails_leaves_nothing(golden_store: Any, tmp_path: Path, name: str) -> None:
    def stop(step: str, done: int, total: int) -> None:
        raise KeyboardInterrupt

    file = tmp_path / f"out.{name}"
    with pytest.raises(KeyboardInterrupt):
        export(mqstore.open(golden_store("store")), file, progress=stop)
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_replaced_only_on_request_and_only_whole(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"old")
    with pytest.raises(FileExistsError, match="--force"), whole_file(file, False):
        pass
    with pytest.raises(RuntimeError), whole_file(file, True) as out:
        out.write(b"half")
        raise RuntimeError
    assert file.read_bytes() == b"old"
    with whole_file(file, True) as out:
        out.write(b"new")
        assert file.read_bytes() == b"old"
    assert file.read_bytes() == b"new"
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_a_killed_export_leaves_no_file_of_that_name(golden_store: Any, tmp_path: Path) -> None:
    program = (
        "import os, sys, signal, mqstore\n"
        "from mqstore.offline.export import export\n"
        "kill = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "export(mqstore.open(sys.argv[1]), sys.argv[2], progress=kill)\n"
    )
    file = tmp_path / "out.jsonl"
    command = [sys.executable, "-c", program, str(golden_store("store")), str(file)]
    assert subprocess.run(command, timeout=60, check=False).returncode == -9
    assert not file.exists()


def test_a_full_disk_leaves_nothing(golden_store: Any, tmp_path: Path) -> None:
    """No file may grow beyond 64 KiB: writing more fails as on a full disk."""
    for name in FORMATS[:3:2]:
        program = (
            "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536)); "
            "from mqstore.cli import main; sys.exit(main())"
        )
        words = ["export", str(golden_store("store")), "--to", str(tmp_path / f"out.{name}")]
        run = subprocess.run(
            [sys.executable, "-c", program, *words],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (run.returncode, run.stdout) == (1, "")
        assert "mqstore: " in run.stderr
        assert "File too large" in run.stderr
        assert "Traceback" not in run.stderr
        assert list(tmp_path.iterdir()) == []


def test_the_command_chooses(golden_store: Any, tmp_path: Path) -> None:
    store, file = str(golden_store("store")), tmp_path / "out.csv"
    words = ["--topic", "TopicTest", "--tags", "TagA", "--count", "4"]
    assert main(["export", store, "--to", str(file), *words, "--output", "table"]) == 0
    with file.open(newline="") as opened:
        rows = list(csv.DictReader(opened))
    assert [row["queueOffset"] for row in rows] == ["0"] * 4
    assert {row["topic"] for row in rows} == {"TopicTest"}
    assert main(["export", store, "--to", str(file), *words]) == 1  # it exists
    assert main(["export", store, "--to", str(file), "--count", "0", "--force"]) == 0
    assert list(read_export(file)) == []
    assert main(["export", store, "--to", str(tmp_path / "b"), "--format", "parquet"]) == 0
    assert len(list(read_export(tmp_path / "b", "parquet"))) == 576


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--to", "{}/out.txt"], 2, "end it with .jsonl, .jsonl.zst, .csv or .parquet"),
        (["--to", "{}/none/out.csv"], 1, "none: the directory does not exist"),
        (["--to", "{}/out.csv", "--offset", "5"], 1, "no record starts at offset 5"),
        (["--to", "{}/out.csv", "--from", "today"], 2, "'today' is not a time"),
        (["--to", "{}/out.csv", "--from", "2026-01-02", "--until", "2026-01-01"], 2, "later than"),
        ([], 2, "--to"),
    ],
)
def test_wrong_input_is_said(
    golden_store: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    code: int,
    said: str,
) -> None:
    arguments = [word.format(tmp_path) for word in words]
    assert main(["export", str(golden_store("store")), *arguments]) == code
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def damaged(lines: list[str], how: str) -> str:
    row = json.loads(lines[1])
    if how == "no json":
        return "\n".join([lines[0], lines[1][:50]])
    if how == "a list":
        return f"{lines[0]}\n[]\n"
    if how == "no body":
        del row["body"]
    elif how == "text":
        row["body"] = "Hello RocketMQ 1"
    elif how == "crc":
        row["body"] = "SGVsbG8="
    elif how == "queue":
        row["queueId"] = "two"
    else:
        row["properties"] = []
    return f"{lines[0]}\n{json.dumps(row)}\n"


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("no json", "not JSON"),
        ("a list", "not a JSON object"),
        ("no body", "it has no body"),
        ("text", "line 2"),
        ("crc", "its body does not match its bodyCRC"),
        ("queue", "invalid literal"),
        ("properties", "its properties are not an object"),
    ],
)
def test_a_damaged_export_names_the_line(
    golden_store: Any, tmp_path: Path, how: str, said: str
) -> None:
    file = tmp_path / "out.jsonl"
    export(mqstore.open(golden_store("store")), file, count=3)
    file.write_text(damaged(file.read_text().splitlines(), how))
    messages = read_export(file)
    assert next(messages).body == b"Hello RocketMQ 0"
    with pytest.raises(ValueError, match=r"line 2.*mqstore export DIRECTORY --to FILE") as error:
        next(messages)
    assert said in str(error.value)


def test_files_cut_short_are_said(golden_store: Any, tmp_path: Path) -> None:
    reader = mqstore.open(golden_store("store"))
    for name, words in [
        ("jsonl.zst", "truncated|not JSON"),
        ("parquet", "the file: .*arquet"),
    ]:
        file = tmp_path / f"out.{name}"
        export(reader, file)
        whole = file.read_bytes()
        file.write_bytes(whole[: len(whole) // 2])
        with pytest.raises(ValueError, match=words):
            list(read_export(file))
    zst = tmp_path / "out.jsonl.zst"
    export(reader, zst, replace=True)
    whole = zst.read_bytes()
    zst.write_bytes(whole + whole)
    assert len(list(read_export(zst))) == 2 * 576
    zst.write_bytes(whole[:20] + bytes(20) + whole[40:])
    with pytest.raises(ValueError, match=r"zstd stream is damaged|line"):
        list(read_export(zst))


@pytest.fixture(scope="module")
def whole_files(golden_store: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    directory = tmp_path_factory.mktemp("whole")
    reader = mqstore.open(golden_store("store"))
    for name in FORMATS:
        export(reader, directory / f"out.{name}", count=40)
    return {name: (directory / f"out.{name}").read_bytes() for name in FORMATS}


@examples(60)
@given(
    name=st.sampled_from(FORMATS),
    at=st.floats(0, 1, exclude_max=True),
    piece=st.binary(min_size=1, max_size=8),
    cut=st.booleans(),
)
def test_a_file_of_any_bytes_is_messages_or_a_value_error(
    whole_files: dict[str, bytes], name: str, at: float, piece: bytes, cut: bool
) -> None:
    whole = whole_files[name]
    index = int(at * len(whole))
    changed = whole[:index] + piece + (b"" if cut else whole[index + len(piece) :])
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / f"out.{name}"
        file.write_bytes(changed)
        try:
            messages = list(read_export(file))
        except ValueError as error:
            assert str(file) in str(error)
        else:
            assert all(isinstance(m.body, bytes) for m in messages)


def test_formats_by_name() -> None:
    assert [format_of(Path(f"a.b.{name}")) for name in FORMATS] == list(FORMATS)
    assert format_of(Path("a.csv"), "parquet") == "parquet"
    with pytest.raises(ValueError, match="not one of jsonl"):
        format_of(Path("a"), "xml")
