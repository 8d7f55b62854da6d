"""Derived files of any length: every tool answers, and `verify` names the file."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mqstore
from mqstore import Settings, Store, encode_properties
from mqstore.cli import main

FOLDERS = ("consumequeue", "consumequeue_ext", "index")


def derived_files(root: Path) -> list[Path]:
    """One file of each kind and queue, and the checkpoint."""
    found = [
        next(iter(sorted((root / folder).rglob("[0-9]" * 17 + "*"))), None) for folder in FOLDERS
    ]
    return [root / "checkpoint", *(path for path in found if path)]


def damaged(content: bytes) -> Iterator[bytes]:
    """Contents of other lengths."""
    for length in (0, 1, 19, 39, 57, len(content) // 2, len(content) - 1):
        yield content[:length]
    yield content + b"\0"
    yield content + bytes(len(content) + 1)


@pytest.mark.parametrize("name", ["store", "store-ext"])
def test_any_length_of_a_derived_file(
    golden_store: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    root = shutil.copytree(golden_store(name), tmp_path / "store")
    assert main(["verify", str(root)]) == 0
    for path in derived_files(root):
        content = path.read_bytes()
        for number, other in enumerate(damaged(content)):
            path.write_bytes(other)
            out = tmp_path / f"{path.name}-{number}.csv"
            for words in (["ls"], ["dump"], ["export", "--to", str(out)]):
                assert main([words[0], str(root), *words[1:]]) in (0, 1), (path, len(other))
            capsys.readouterr()
            assert main(["verify", str(root)]) == 5, (path, len(other))
            said = capsys.readouterr().out
            assert path.name in said, (path, len(other), said[:2000])
        path.write_bytes(content)
    assert main(["verify", str(root)]) == 0


def store_of(root: Path, slots: int, entries: int) -> None:
    """A closed store whose index has these sizes, with a table of topics."""
    settings = Settings(
        commit_log_file_bytes=1 << 20,
        index_slots=slots,
        index_entries=entries,
        allocate_step_bytes=1 << 20,
        min_free_bytes=0,
    )
    with Store(root, settings, create=True) as store:
        for number in range(40):
            properties = encode_properties({"TAGS": "A", "KEYS": f"k{number}"})
            store.put("Orders", b"body", properties=properties)
        store.save_state("topics.json", b'{"topicConfigTable":{"Orders":{}}}')


@pytest.mark.parametrize(("slots", "entries"), [(100, 300), (7, 1_000), (100, 400)])
def test_the_sizes_of_an_index_need_not_be_told(tmp_path: Path, slots: int, entries: int) -> None:
    root = tmp_path / "store"
    store_of(root, slots, entries)
    assert main(["verify", str(root)]) == 0
    reader = mqstore.open(root)
    assert (reader.layout.index_slots, reader.layout.index_entries) == (slots, entries)
    assert [m.keys for m in reader.find("Orders", "k7")] == [("k7",)]
    with Store(root, Settings(min_free_bytes=0)) as store:
        properties = encode_properties({"KEYS": "k40"})
        store.put("Orders", b"more", properties=properties)
    assert main(["verify", str(root)]) == 0
    assert [m.body for m in mqstore.open(root).find("Orders", "k40")] == [b"more"]


def test_sizes_that_the_index_contradicts_are_refused(tmp_path: Path) -> None:
    root = tmp_path / "store"
    store_of(root, 100, 300)
    with pytest.raises(mqstore.StoreError, match="set maxHashSlotNum=100 and maxIndexNum=300"):
        Store(root, Settings(min_free_bytes=0, index_slots=200, index_entries=280))


SIZES = ["--max-hash-slots", "100", "--max-index-num", "300"]


@pytest.mark.parametrize("command", ["rebuild", "repair"])
def test_sizes_that_the_index_does_not_tell_are_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    root, to = tmp_path / "store", tmp_path / "new"
    store_of(root, 100, 300)
    (index,) = (root / "index").iterdir()
    content = index.read_bytes()
    index.write_bytes(content[:36] + b"\x07" * (len(content) - 36))
    words = [command, str(root), "--to", str(to)]
    assert main(words) == 1
    assert "--max-hash-slots and --max-index-num" in capsys.readouterr().err
    assert main([*words, "--max-hash-slots", "0"]) == 2
    assert not to.exists()
    assert main([*words, *SIZES]) == 0
    layout = mqstore.open(to).layout
    assert (layout.index_slots, layout.index_entries) == (100, 300)
    assert [m.keys for m in mqstore.open(to).find("Orders", "k7")] == [("k7",)]
    assert main(["verify", str(to)]) == 0


def test_sizes_are_given_where_there_is_no_index(tmp_path: Path) -> None:
    root = tmp_path / "store"
    store_of(root, 100, 300)
    shutil.rmtree(root / "index")
    assert main(["rebuild", str(root), "--in-place", *SIZES]) == 0
    layout = mqstore.open(root).layout
    assert (layout.index_slots, layout.index_entries) == (100, 300)


def test_sizes_that_the_index_contradicts_do_not_rebuild_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "store"
    store_of(root, 100, 300)
    words = ["--max-hash-slots", "200", "--max-index-num", "280"]
    assert main(["rebuild", str(root), "--in-place", *words]) == 1
    assert "maxHashSlotNum=100 and maxIndexNum=300" in capsys.readouterr().err
    assert main(["verify", str(root)]) == 0


@pytest.mark.parametrize("folder", ["commitlog", "consumequeue", "index"])
def test_a_link_in_the_place_of_a_file_is_not_followed(tmp_path: Path, folder: str) -> None:
    root = tmp_path / "store"
    store_of(root, 100, 300)
    path = next(path for path in sorted((root / folder).rglob("*")) if path.is_file())
    path.rename(tmp_path / "elsewhere")
    path.symlink_to("/dev/zero")
    with pytest.raises(OSError, match="symbolic link"):
        Store(root, Settings(min_free_bytes=0))
    assert main(["verify", str(root)]) in (1, 5)


def test_a_store_without_its_topics_is_damaged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "store"
    store_of(root, 100, 400)
    (root / "config" / "topics.json").unlink()
    assert main(["verify", str(root)]) == 5
    assert "topics.json" in capsys.readouterr().out


def test_a_jump_of_queue_offsets_is_found_after_a_crash(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "store"
    store_of(root, 100, 400)
    (root / "abort").touch()
    queue = root / "consumequeue" / "Orders" / "0" / ("0" * 20)
    queue.write_bytes(queue.read_bytes()[:400].ljust(queue.stat().st_size, b"\0"))
    assert main(["verify", str(root)]) == 0
    last = list(mqstore.open(root).records())[-1]
    log = root / "commitlog" / ("0" * 20)
    content = bytearray(log.read_bytes())
    content[last.commit_log_offset + 26] ^= 1
    log.write_bytes(content)
    capsys.readouterr()
    assert main(["verify", str(root)]) == 5
    assert "queue_offset" in capsys.readouterr().out
