"""Access files: RocketMQ's own, ours, and bad ones."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from mqserver.broker.acl.accounts import DENY, PUB, SUB, Account, bits, check_permissions
from mqserver.broker.acl.errors import AclError
from mqserver.broker.acl.files import FILE_BYTES_MAX, AclPaths, Version, read, write

GOLDEN = Path(__file__).parent.parent / "golden" / "wire" / "acl-plain_acl-after.yml"
"""The file that RocketMQ 4.9.7 wrote after its admin commands."""
SECRET = "s3cret-words"
TOO_DEEP = "nested deeper than 32 levels|exceeded maximum nesting depth"
"""Our error, or the error of a libyaml that limits the depth itself."""


def at(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_the_file_that_rocketmq_wrote() -> None:
    found = read(GOLDEN, 1)
    assert found.version == Version(3, 1795247868264)
    user, admin = found.accounts
    assert (user.access_key, user.secret_key, user.admin) == ("rocketuser", "12345678", False)
    assert (user.default_topic, user.default_group) == (DENY, SUB)
    assert user.topics == {"AclPub": PUB, "AclSub": SUB, "AclDeny": DENY}
    assert user.groups == {"acl_group": SUB}
    assert user.white == ()
    assert (admin.access_key, admin.admin, admin.topics) == ("rocketadmin", True, {})
    assert (admin.default_topic, admin.default_group) == (DENY, DENY)
    assert [pattern[3] for pattern in found.white] == [(0, 255), (0, 255)]


def test_we_write_what_rocketmq_writes(tmp_path: Path) -> None:
    path = tmp_path / "plain_acl.yml"
    write(path, read(GOLDEN, 1).data)
    assert path.read_bytes() == GOLDEN.read_bytes()


def test_text_that_looks_like_a_number_stays_text(tmp_path: Path) -> None:
    path = tmp_path / "plain_acl.yml"
    data = {"accounts": [{"accessKey": "newaccount", "secretKey": "87654321"}]}
    write(path, data)
    assert "secretKey: '87654321'" in path.read_text()
    assert read(path, 1).data == data


def test_writing_keeps_the_mode_and_leaves_nothing_behind(tmp_path: Path) -> None:
    path = at(tmp_path / "plain_acl.yml", "")
    path.chmod(0o640)
    link = tmp_path / "link.yml"
    link.symlink_to(path)
    write(link, {"accounts": []})
    assert link.is_symlink() and path.stat().st_mode & 0o777 == 0o640
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["link.yml", "plain_acl.yml"]
    fresh = tmp_path / "fresh.yml"
    write(fresh, {})
    assert fresh.stat().st_mode & 0o077 == 0


def test_a_failed_write_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = at(tmp_path / "plain_acl.yml", "accounts: []\n")

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write(path, {"accounts": None})
    assert path.read_text() == "accounts: []\n"
    assert [entry.name for entry in tmp_path.iterdir()] == ["plain_acl.yml"]


@pytest.mark.parametrize(
    ("word", "wanted"),
    [
        ("PUB", PUB),
        (" SUB ", SUB),
        ("PUB|SUB", PUB | SUB),
        ("SUB|PUB", PUB | SUB),
        ("DENY", DENY),
        (None, DENY),
    ],
)
def test_permission_words(word: object, wanted: int) -> None:
    assert bits(word) == wanted


@pytest.mark.parametrize("word", ["ANY", "pub", 7, ""])
def test_a_word_that_is_no_permission_is_refused(word: object) -> None:
    with pytest.raises(AclError, match="is none of PUB, SUB,"):
        bits(word)


def test_permissions_that_an_administrator_gives_are_checked() -> None:
    check_permissions(["T=PUB", "T=DENY", "T = SUB|PUB"])
    with pytest.raises(AclError, match="Parse Resource format error for T"):
        check_permissions(["T"])
    with pytest.raises(AclError, match="Parse resource permission error for T=pub"):
        check_permissions(["T=pub"])


ACCOUNT = f"accounts:\n- accessKey: someuser\n  secretKey: {SECRET}\n"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("accounts: {a: 1}", "accounts must be a list, not a dict"),
        ("accounts: [text]", "account 1, line 1: an account must be a mapping"),
        ("- 1", "the file must be a mapping, not a list"),
        (
            "accounts:\n- accessKey: short\n  secretKey: 12345678",
            "account 1, line 2: The accessKey=short",
        ),
        ("accounts:\n- accessKey: someuser", "secretKey=null cannot be null"),
        (f"accounts:\n- secretKey: {SECRET}", "accessKey=null and secretKey=\\*\\*\\*\\*\\*\\*"),
        (
            "accounts:\n- accessKey: someuser\n  secretKey: 2020-01-01",
            "YAML reads secretKey as a date; put",
        ),
        (ACCOUNT + "  topicPerms: [T]", "Parse resource permission failed for topic:T"),
        (ACCOUNT + "  groupPerms: T=SUB", "groupPerms must be a list, not str"),
        (
            ACCOUNT + "  whiteRemoteAddress: 300.1.1.1",
            "account 1, line 2: Netaddress examine Exception",
        ),
        ("globalWhiteRemoteAddresses: [nonsense]", "Netaddress examine Exception netaddress is no"),
        (
            ACCOUNT + "  topicPerms:\n  - A=PUB\n  - B=PBU",
            "account 1, line 6: the permission 'PBU'",
        ),
        (ACCOUNT + "  groupPerms:\n  - A=SUB\n  - A=DENY", "line 6: groupPerms has A twice"),
        (ACCOUNT + "  defaultTopicPerm: deny", "account 1, line 4: the permission 'deny' is none"),
        (ACCOUNT + "  accessKey: otheruser", "line 4: the mapping has this key already"),
        (ACCOUNT + ACCOUNT, "line 4: the mapping has this key already"),
        (ACCOUNT + "dataVersion: [7]", "dataVersion must be a list of mappings"),
        (ACCOUNT + "dataVersion: [{counter: x}]", "needs a whole counter"),
        (ACCOUNT + "  broken: [", "the file is not YAML: line"),
        (ACCOUNT + f"  {SECRET}: !!python/object:os.system x", "the file is not YAML: line"),
        ("a: &x [1]\nb: [*x, *x]", "YAML alias"),
        ("\0", "the file is not YAML"),
        ("[" * 30, "the file is not YAML"),
        ("[" * 5_000, TOO_DEEP),
    ],
)
def test_bad_files_are_named_with_what_is_wrong(tmp_path: Path, text: str, wanted: str) -> None:
    path = at(tmp_path / "plain_acl.yml", text)
    with pytest.raises(AclError, match=wanted) as caught:
        read(path, 1)
    assert str(path) in str(caught.value)
    assert SECRET not in str(caught.value)


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    path = at(tmp_path / "plain_acl.yml", "#" * (FILE_BYTES_MAX + 1))
    with pytest.raises(AclError, match="larger than 1048576 bytes"):
        read(path, 1)


def test_an_empty_file_says_nothing(tmp_path: Path) -> None:
    found = read(at(tmp_path / "plain_acl.yml", "# nothing\n"), 7)
    assert (found.accounts, found.data, found.version) == ((), {}, Version(0, 7))


def test_which_files_there_are(tmp_path: Path) -> None:
    paths = AclPaths(tmp_path, "conf/plain_acl.yml")
    paths.ensure()
    folder = tmp_path / "conf" / "acl"
    (folder / "deep" / "deeper").mkdir(parents=True)
    for name in ("b.yml", "a.yaml", "deep/deeper/c.yml", "tools.yml", "notes.txt"):
        at(folder / name, "")
    (folder / "d.yml").mkdir()
    names = [str(path.relative_to(folder.parent)) for path in paths.paths()]
    assert names == ["acl/a.yaml", "acl/b.yml", "acl/deep/deeper/c.yml", "plain_acl.yml"]
    assert paths.owns(folder / ".." / "plain_acl.yml")
    for other in (folder / "tools.yml", Path("/etc/passwd"), folder / "new.yml", Path("a\0b")):
        assert not paths.owns(other)


def test_secrets_are_not_shown() -> None:
    account = Account("someuser", SECRET)
    assert SECRET not in repr(account) and SECRET not in str(account)


def test_retry_topics_are_groups(tmp_path: Path) -> None:
    text = ACCOUNT + "  topicPerms: ['%RETRY%g=SUB', T=PUB]\n"
    (account,) = read(at(tmp_path / "plain_acl.yml", text), 1).accounts
    assert (account.topics, account.groups) == ({"T": PUB}, {"g": SUB})


def test_java_reads_what_we_write(tmp_path: Path) -> None:
    """Block style, no tags, no aliases: what SnakeYAML's dumpAsMap writes as well."""
    path = tmp_path / "plain_acl.yml"
    shared = ["T=PUB"]
    write(path, {"accounts": [{"topicPerms": shared, "groupPerms": list(shared)}]})
    text = path.read_text()
    assert "!" not in text and "&" not in text and "{" not in text
    assert yaml.safe_load(text)["accounts"][0]["topicPerms"] == shared


@pytest.mark.parametrize(
    "text",
    ["[" * 50_000, "a: " + "{b: " * 50_000, "- " * 50_000 + "x"],
    ids=["lists", "mappings", "blocks"],
)
def test_a_file_that_is_nested_deeply_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(AclError, match=TOO_DEEP):
        read(at(tmp_path / "deep.yml", text), 1)
