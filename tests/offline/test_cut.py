"""`mqstore cut`: a slave's log that differs from its master's is cut, and follows again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mqcommon._core import HaMaster, HaSlave
from mqstore import Settings, Store, StoreDamaged
from mqstore.cli import main
from tests.waiting import answer_of

SIZES = {"commit_log_file_bytes": 1 << 16, "index_slots": 100, "index_entries": 400}
OPTIONS = ["--max-hash-slots", "100", "--max-index-num", "400"]


def opened(root: Path, role: str) -> Store:
    return Store(root, Settings(role=role, min_free_bytes=0, **SIZES), create=True)


def put(store: Store, count: int, body: bytes) -> None:
    assert all(store.put("T", body).status == "PUT_OK" for _ in range(count))


def followed(master: Store, copy: Store, wanted: str) -> dict[str, object]:
    """Let the copy follow the master until it is in a state with all that it can have."""
    port = HaMaster(master, {"host": "127.0.0.1", "port": 0})
    slave = HaSlave(copy, {"retry_interval_ms": 50})
    slave.start()
    try:
        slave.set_master(f"127.0.0.1:{port.start()}", 0)
        end = master.max_physical_offset()
        return answer_of(
            slave.status,
            lambda now: now["state"] == wanted and (wanted != "transfer" or now["offset"] == end),
        )
    finally:
        slave.stop()
        port.stop()


def test_a_log_that_differs_is_cut_and_follows_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with opened(tmp_path / "one", "master") as master:
        with opened(tmp_path / "two", "slave") as copy:
            put(master, 30, b"both" * 50)
            followed(master, copy, "transfer")
            copy.set_role("master")
            put(copy, 40, b"lost" * 50)
        put(master, 90, b"kept" * 50)
        with opened(tmp_path / "two", "slave") as copy:
            end = copy.max_physical_offset()
            differs = followed(master, copy, "diverged")["diverged_at"]
            assert isinstance(differs, int)
            assert copy.max_physical_offset() == end
        assert main(["cut", str(tmp_path / "two"), str(differs), *OPTIONS]) == 0
        said = capsys.readouterr().out
        assert said.startswith("cut: ")
        (saved,) = (tmp_path / "two/mqstack/quarantine").iterdir()
        assert str(saved) in said
        assert b"lost" in saved.read_bytes()
        assert saved.read_bytes().count(b"both" * 50) == 0
        with opened(tmp_path / "two", "slave") as copy:
            assert copy.max_offset("T", 0) == 30
            followed(master, copy, "transfer")
            answer_of(lambda: copy.max_offset("T", 0), lambda found: found == 120)
            assert copy.entries("T", 0, 0, 120) == master.entries("T", 0, 0, 120)


def test_a_slave_with_damage_says_where_to_cut(tmp_path: Path) -> None:
    with opened(tmp_path / "one", "master") as master:
        put(master, 50, b"x" * 800)
        with opened(tmp_path / "two", "slave") as copy:
            followed(master, copy, "transfer")
            end = copy.max_physical_offset()
        with open(tmp_path / "two/commitlog" / f"{0:020}", "r+b") as file:
            file.seek(8192)
            file.write(bytes(4096))
        with pytest.raises(StoreDamaged, match="mqstore cut") as refused:
            opened(tmp_path / "two", "slave")
        found = re.search(r"mqstore cut \S+ (\d+)`", str(refused.value))
        assert found is not None
        assert main(["cut", str(tmp_path / "two"), found[1], *OPTIONS]) == 0
        (saved,) = (tmp_path / "two/mqstack/quarantine").iterdir()
        assert saved.read_bytes()[: end - int(found[1])].count(b"x" * 800) > 30
        with opened(tmp_path / "two", "slave") as copy:
            followed(master, copy, "transfer")
            answer_of(lambda: copy.max_offset("T", 0), lambda found: found == 50)
            assert copy.entries("T", 0, 0, 50) == master.entries("T", 0, 0, 50)


def test_an_offset_outside_the_log_cuts_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with opened(tmp_path, "master") as store:
        put(store, 3, b"x")
        end = store.max_physical_offset()
        assert main(["cut", str(tmp_path), "0"]) == 1
        assert "locked" in capsys.readouterr().err
    outside, behind = "within the log", f"no record at {end}"
    for offset, reason in ((end, outside), (end + 1, behind), (1 << 40, outside)):
        assert main(["cut", str(tmp_path), str(offset), *OPTIONS]) != 0
        assert reason in capsys.readouterr().err
    with opened(tmp_path, "master") as store:
        assert store.max_physical_offset() == end
