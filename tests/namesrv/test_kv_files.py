"""The NameServer's key-value file: damage, its previous copy, saves that fail."""

import os
import subprocess
from pathlib import Path

import pytest

from mqserver.config.loaded import SettingsError
from mqserver.namesrv.kv import KeyValues


def test_a_damaged_file_is_read_from_its_previous_copy(tmp_path: Path) -> None:
    path = tmp_path / "kv.json"
    tables = KeyValues(path)
    tables.put("a", "key", "old")
    tables.put("a", "key", "new")
    for damage in (b"", b"{", b'{"configTable":[]}'):
        path.write_bytes(damage)
        again = KeyValues(path)
        assert again.get("a", "key") == "old"
    again.put("a", "other", "x")
    path.unlink()
    assert KeyValues(path).get("a", "key") == "old", "the good copy was not replaced by damage"
    (tmp_path / "kv.json.bak").write_bytes(b"{")
    with pytest.raises(SettingsError, match="put a good copy there"):
        KeyValues(path)


def test_a_failed_save_changes_nothing_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "kv.json"
    tables = KeyValues(path)
    tables.put("a", "key", "old")
    (tmp_path / "kv.json.tmp").mkdir()
    with pytest.raises(OSError):
        tables.put("a", "key", "new")
    with pytest.raises(OSError):
        tables.delete("a", "key")
    assert tables.get("a", "key") == "old"


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    path = tmp_path / "kv.json"
    path.symlink_to("/dev/zero")
    with pytest.raises(SettingsError, match="kvConfigPath"):
        KeyValues(path)


def test_a_changed_file_is_damaged_if_nobody_wrote_it_since(tmp_path: Path) -> None:
    path = tmp_path / "kv.json"
    tables = KeyValues(path)
    tables.put("a", "key", "old")
    tables.put("a", "key", "new")
    stamp = path.stat().st_mtime_ns
    path.write_bytes(path.read_bytes().replace(b"new", b"nex"))
    os.utime(path, ns=(stamp, stamp))
    assert KeyValues(path).get("a", "key") == "old", "same time, other bytes"
    os.utime(path, ns=(stamp + 10**9, stamp + 10**9))
    assert KeyValues(path).get("a", "key") == "nex", "an operator wrote it"


def test_a_bad_value_is_set_aside_and_the_others_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "kv.json"
    path.write_text('{"configTable":{"a":{"k":"v","n":5,"none":null,"bad":[1]},"b":"no table"}}')
    tables = KeyValues(path)
    assert tables.table("a") == {"k": "v", "n": "5"}
    assert tables.table("b") is None
    (kept,) = (tmp_path / "mqstack/quarantine").iterdir()
    text = kept.read_text()
    assert '"name":"a bad"' in text
    assert '"name":"b"' in text


def test_the_command_of_the_refusal_works(tmp_path: Path) -> None:
    path = tmp_path / "it's here" / "kv.json"
    path.parent.mkdir()
    path.write_bytes(b'{"configTable":{"a"')
    (tmp_path / "it's here" / "kv.json.bak").write_bytes(b"{")
    with pytest.raises(SettingsError) as refused:
        KeyValues(path)
    line = str(refused.value)
    assert "\n" not in line
    assert str(path) in line
    assert "at position 19" in line
    command = line.partition("begin without it: ")[2]
    subprocess.run(["bash", "-c", command], check=True)
    assert KeyValues(path).table("a") is None
    kept = {found.name for found in (path.parent / "mqstack/quarantine").iterdir()}
    assert kept == {"kv.json", "kv.json.bak"}
