"""`mqstore repair` and `mqstore rebuild`, from the outside."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mqstore
from mqstore.cli import main
from tests.common.golden import expected

Run = Callable[..., tuple[int, list[dict[str, Any]], str]]
DAMAGED = 219148


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: object) -> tuple[int, list[dict[str, Any]], str]:
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, [json.loads(line) for line in captured.out.splitlines()], captured.err

    return run


def files(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def test_a_copy_is_repaired_and_the_original_stays(
    run: Run, golden_store: Any, tmp_path: Path
) -> None:
    root, new = golden_store("store-damaged"), tmp_path / "new"
    before = files(root)
    code, rows, err = run("repair", root, "--to", new)
    assert (code, err) == (0, "")
    summary = rows[-1]
    assert (summary["kind"], summary["records"]) == ("summary", 1029)
    (repaired,) = summary["repaired"]
    assert (repaired["start"], repaired["end"]) == (DAMAGED, DAMAGED + 196)
    assert Path(repaired["saved"]).stat().st_size == 196
    assert files(root) == before
    report = mqstore.open(new).verify()
    assert not report.damaged
    # What Java would drop, all that follows the flipped bit, is there.
    whole = [
        line["physicalOffset"] for line in expected("store-crashed-recovered") if "topic" in line
    ]
    kept = [m.commit_log_offset for m in mqstore.open(new).records(topic="TopicBurst")]
    assert max(kept) > DAMAGED
    assert set(kept) < set(whole)


def test_a_repaired_store_opens_for_writing(golden_store: Any, tmp_path: Path) -> None:
    report = mqstore.repair(golden_store("store-damaged"), tmp_path / "new")
    assert report.log_end > report.log_start == 0
    with mqstore.Store(tmp_path / "new", mqstore.Settings(min_free_bytes=0)) as store:
        put = store.put("TopicBurst", b"after", queue_id=0)
        assert put.physical_offset >= report.log_end


def test_a_damaged_log_is_not_rebuilt(run: Run, golden_store: Any, tmp_path: Path) -> None:
    root = golden_store("store-damaged")
    code, _, err = run("rebuild", root, "--to", tmp_path / "new")
    assert code == 5
    assert f"mqstore repair {root} --to" in err
    assert not (tmp_path / "new").exists() or not any((tmp_path / "new").iterdir())


def test_derived_files_come_back_from_the_log_alone(
    run: Run, golden_store: Any, tmp_path: Path
) -> None:
    root = shutil.copytree(golden_store("store"), tmp_path / "store")
    queues = mqstore.open(root).queues()
    for lost in ("consumequeue", "index"):
        shutil.rmtree(root / lost)
    (root / "checkpoint").unlink()
    assert mqstore.open(root).queues() == []
    code, rows, _ = run("rebuild", root, "--in-place")
    assert (code, rows[-1]["queues"], rows[-1]["queueEntries"]) == (0, 37, 605)
    reader = mqstore.open(root)
    assert reader.queues() == queues
    assert not reader.verify().damaged
    first = next(reader.records(topic="TopicTest"))
    assert [m.body for m in reader.find("TopicTest", first.msg_id)] == [first.body]


def test_each_group_learns_what_it_will_read(run: Run, golden_store: Any, tmp_path: Path) -> None:
    root = shutil.copytree(golden_store("store"), tmp_path / "store")
    offsets = root / "config" / "consumerOffset.json"
    offsets.write_text('{"offsetTable":{"TopicTest@ahead":{0:99},"TopicTest@behind":{0:1}}}')
    code, rows, _ = run("repair", root, "--in-place")
    groups = {row["group"]: row for row in rows if row["kind"] == "group"}
    end = next(
        q.max_offset
        for q in mqstore.open(root).queues()
        if (q.topic, q.queue_id) == ("TopicTest", 0)
    )
    assert code == 0
    assert (groups["ahead"]["committedBefore"], groups["ahead"]["committed"]) == (99, end)
    assert groups["behind"]["remaining"] == end - 1
    assert mqstore.open(root).committed()["TopicTest@ahead"][0] == end


def test_a_store_in_use_is_refused_in_place_and_copied_elsewhere(run: Run, tmp_path: Path) -> None:
    settings = mqstore.Settings(
        commit_log_file_bytes=1 << 16, index_slots=100, index_entries=400, min_free_bytes=0
    )
    with mqstore.Store(tmp_path / "store", settings, create=True) as store:
        store.put("T", b"x")
        store.flush()
        for command in ("repair", "rebuild"):
            code, _, err = run(command, tmp_path / "store", "--in-place")
            assert code == 1
            assert "in use" in err or "another process" in err or "lock" in err
        assert run("repair", tmp_path / "store", "--to", tmp_path / "copy")[0] == 0
        assert store.put("T", b"y").status == "PUT_OK"
    assert [m.body for m in mqstore.open(tmp_path / "copy").records()] == [b"x"]


def test_ctrl_c_leaves_the_original_and_no_half_store(golden_store: Any, tmp_path: Path) -> None:
    root = golden_store("store")
    before = files(root)

    def stop(step: str, done: int, total: int) -> None:
        raise KeyboardInterrupt

    for work in (mqstore.repair, mqstore.rebuild):
        with pytest.raises(KeyboardInterrupt):
            work(root, tmp_path / "new", progress=stop)
        assert not (tmp_path / "new").exists()
    assert files(root) == before


@pytest.mark.parametrize("command", ["repair", "rebuild"])
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, "--to NEW_DIRECTORY leaves the store unchanged"),
        (["--to", "{new}", "--in-place"], 2, "--to NEW_DIRECTORY leaves the store unchanged"),
        (["--to", "{full}"], 1, "a directory that does not exist yet"),
        (["--to", "{new}", "--delay-levels", "soon"], 2, "soon"),
    ],
)
def test_wrong_input(
    golden_store: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    command: str,
    words: list[str],
    code: int,
    said: str,
) -> None:
    full = tmp_path / "full"
    full.mkdir()
    (full / "a").touch()
    words = [word.format(new=tmp_path / "new", full=full) for word in words]
    assert main([command, os.fspath(golden_store("store")), *words]) == code
    assert said in capsys.readouterr().err


def test_the_api_wants_one_target(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="either to=DIRECTORY"):
        mqstore.repair(tmp_path)
    with pytest.raises(ValueError, match="either to=DIRECTORY"):
        mqstore.rebuild(tmp_path, tmp_path / "new", in_place=True)
    with pytest.raises(FileNotFoundError):
        mqstore.repair(tmp_path / "none", in_place=True)


def test_a_table_says_it_in_words(
    golden_store: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = str(golden_store("store-damaged"))
    assert main(["repair", root, "--to", str(tmp_path / "a"), "--output", "table"]) == 0
    said = capsys.readouterr().out
    assert "1029 records" in said
    assert f"repaired: 196 bytes at {DAMAGED}, saved in" in said
    root = str(golden_store("store"))
    assert main(["rebuild", root, "--to", str(tmp_path / "b"), "--output", "table"]) == 0
    said = capsys.readouterr().out
    assert "nothing to read, replay or skip in 21 of their queues" in said
    assert "CID_RMQ_SYS_TRANS" in said


def test_the_command_that_a_short_file_is_refused_with_repairs(
    run: Run, golden_store: Any, tmp_path: Path
) -> None:
    root = shutil.copytree(golden_store("store"), tmp_path / "store")
    new = tmp_path / "new"
    short = sorted((root / "commitlog").iterdir())[1]
    os.truncate(short, 5000)
    with pytest.raises(mqstore.StoreError) as refused:
        mqstore.Store(root, mqstore.Settings(min_free_bytes=0, repair_damage=False))
    text = str(refused.value)
    assert "\n" not in text
    assert f"{short} has 5000 bytes, expected 65536" in text
    (command,) = re.findall(r"`mqstore ([^`]*)`", text)
    words = [str(new) if word == "NEW_DIRECTORY" else word for word in command.split()]
    code, rows, err = run(*words)
    assert (code, err) == (0, "")
    assert rows[-1]["repaired"]
    assert not mqstore.open(new).verify().damaged
    settings = mqstore.Settings(min_free_bytes=0, repair_damage=False)
    with mqstore.Store(new, settings) as store:
        assert store.put("TopicBurst", b"after", queue_id=0).physical_offset > 0


def test_a_short_file_is_repaired_in_place(golden_store: Any, tmp_path: Path) -> None:
    root = shutil.copytree(golden_store("store"), tmp_path / "store")
    os.truncate(sorted((root / "commitlog").iterdir())[1], 5000)
    with mqstore.Store(root, mqstore.Settings(min_free_bytes=0)):
        pass
    assert not mqstore.open(root).verify().damaged
    assert list((root / "mqstack/quarantine").iterdir())
