"""The NameServer's key-value file: damage, its previous copy, saves that fail."""

import errno
from pathlib import Path

import pytest

from mqserver.config.load import SettingsError
from mqserver.names.kv import KeyValues


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


def test_the_previous_copy_is_kept_without_hard_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, "no hard links here")

    monkeypatch.setattr("mqstore.files.os.link", refuse)
    tables = KeyValues(tmp_path / "kv.json")
    tables.put("a", "key", "old")
    tables.put("a", "key", "new")
    assert KeyValues(tmp_path / "kv.json").get("a", "key") == "new"
    (tmp_path / "kv.json").write_bytes(b"{")
    assert KeyValues(tmp_path / "kv.json").get("a", "key") == "old"
