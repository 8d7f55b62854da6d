"""Saved contexts: their file, which one a command line uses, and what it refuses."""

from __future__ import annotations

import json
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from mqadmin import contexts, main
from mqadmin.catalogue import command_of
from mqclient.settings.identity import Credentials
from tests.admin.golden import RecordedCluster
from tests.admin.json_schema import check_rows
from tests.admin.test_command_line import Terminal

PROD = "10.0.0.1:9876"


@pytest.fixture(autouse=True)
def no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)


@pytest.fixture
def account(tmp_path: Path) -> Path:
    file = tmp_path / "tools.yml"
    file.write_text("accessKey: reader\nsecretKey: 12345678\n")
    return file


def context(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    """The rows of a command `context`, which must succeed."""
    assert main(["context", *words, "--output", "json"]) == 0
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    check_rows(f"context {words[0]}", rows)
    return rows


def used(*words: str) -> tuple[str, str | None]:
    """The context and the address of a command line."""
    arguments = command_of("topicList").parse(words)
    return arguments.context, arguments.text("namesrvAddr")


def test_a_context_is_saved_used_shown_and_removed(
    capsys: pytest.CaptureFixture[str], contexts_file: Path, account: Path
) -> None:
    row = {
        "name": "prod", "current": False, "namesrv": PROD, "credentials": str(account),
        "tlsConfig": None, "addressMap": "10.0.0.1:10911=localhost:10911",
    }  # fmt: skip
    added = ("-n", PROD, "--credentials", str(account), "--address-map", str(row["addressMap"]))
    assert context(capsys, "add", "prod", *added) == [row]
    assert stat.S_IMODE(contexts_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(contexts_file.parent.stat().st_mode) == 0o700
    assert "12345678" not in contexts_file.read_text()
    assert used() == ("", None), "a new context is not current"
    assert context(capsys, "use", "prod") == [{**row, "current": True}]
    assert context(capsys, "show") == context(capsys, "list") == [{**row, "current": True}]
    arguments = command_of("topicList").parse([])
    assert arguments.connection["credentials"] == Credentials("reader", "12345678")
    assert arguments.connection["connection"].address_map == {"10.0.0.1:10911": "localhost:10911"}
    assert context(capsys, "use", "--none") == []
    assert used() == ("", None)
    context(capsys, "use", "prod")
    assert context(capsys, "remove", "prod") == []
    assert used() == ("", None)


def test_the_nearest_of_flag_environment_and_context_counts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, account: Path
) -> None:
    monkeypatch.delenv("ROCKETMQ_HOME", raising=False)
    context(capsys, "add", "prod", "-n", PROD, "--use", "--credentials", str(account))
    context(capsys, "add", "test", "-n", "10.0.0.2:9876")
    assert used() == ("prod", PROD)
    monkeypatch.setenv("NAMESRV_ADDR", "10.0.0.3:9876")
    assert used() == ("", None)
    monkeypatch.setenv("MQADMIN_CONTEXT", "test")
    assert used() == ("test", "10.0.0.2:9876")
    assert used("-n", "10.0.0.4:9876") == ("", "10.0.0.4:9876")
    assert used("--context", "prod") == ("prod", PROD)
    assert used("--context", "prod", "-n", "10.0.0.4:9876") == ("prod", "10.0.0.4:9876")
    arguments = command_of("topicList").parse(["-n", "10.0.0.4:9876"])
    assert arguments.connection["credentials"] is None, "an account stays with its cluster"


def test_an_account_may_come_from_the_environment(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, account: Path
) -> None:
    monkeypatch.setenv("PROD_ACCESS", "admin")
    monkeypatch.setenv("PROD_SECRET", "87654321")
    named = ("--credentials-env", "PROD_ACCESS,PROD_SECRET")
    (row,) = context(capsys, "add", "prod", "-n", PROD, "--use", *named)
    assert row["credentials"] == "$PROD_ACCESS $PROD_SECRET"
    command = command_of("topicList")
    assert command.parse([]).connection["credentials"] == Credentials("admin", "87654321")
    given = command.parse(["--credentials", str(account)])
    assert given.connection["credentials"] == Credentials("reader", "12345678")
    monkeypatch.delenv("PROD_SECRET")
    assert main(["topicList"]) == 2
    wanted = "context 'prod' takes its account from the environment, but PROD_SECRET is not set"
    assert capsys.readouterr().err == f"mqadmin topicList: {wanted}\n"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["add", "prod"], "Missing required option: n"),
        (["add", "-n", PROD], "Missing argument: NAME"),
        (["add", "a/b", "-n", PROD], "'a/b' cannot name a context"),
        (["add", "x", "-n", "host:port:9"], "host:port:9"),
        (["add", "x", "-n", PROD, "--credentials", "/no/such/tools.yml"], "/no/such/tools.yml"),
        (["add", "x", "-n", PROD, "--tls-config", "/no/such.properties"], "/no/such.properties"),
        (["add", "x", "-n", PROD, "--address-map", "nonsense"], "'--address-map'"),
        (["add", "x", "-n", PROD, "--credentials-env", "OnlyOne"], "two or three names"),
        (["add", "x", "-n", PROD, "--credentials-env", "HOME,12345678"], "never the keys"),
        (["show"], "no context is current"),
        (["show", "prod"], "there is no context 'prod'; saved contexts: none"),
        (["use", "prod"], "there is no context 'prod'"),
        (["use"], "give the name of a context, or --none"),
        (["remove", "prod"], "there is no context 'prod'"),
    ],
)
def test_wrong_command_lines(
    words: list[str], complaint: str, capsys: pytest.CaptureFixture[str], contexts_file: Path
) -> None:
    assert main(["context", *words]) == 2
    error = capsys.readouterr().err
    assert complaint in error
    assert "12345678" not in error
    assert not contexts_file.exists()


def test_contexts_that_are_added_at_once_are_all_kept(contexts_file: Path) -> None:
    def add(name: str) -> None:
        with contexts.changing() as known:
            known.contexts[name] = contexts.Context(PROD)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, [f"c{number}" for number in range(32)]))
    assert len(contexts.load().contexts) == 32


def test_an_existing_context_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    context(capsys, "add", "prod", "-n", PROD)
    assert main(["context", "add", "prod", "-n", "10.0.0.9:9876"]) == 2
    assert "context 'prod' exists; change it with --replace" in capsys.readouterr().err
    (row,) = context(capsys, "add", "prod", "-n", "10.0.0.9:9876", "--replace")
    assert row["namesrv"] == "10.0.0.9:9876"


@pytest.mark.parametrize(
    ("content", "mode", "complaint"),
    [
        ('{"version": 1, "contexts": {"prod": {"name', 0o600, "is no file of contexts"),
        ("", 0o600, "is no file of contexts"),
        ('{"contexts": {"prod": {"namesrv": 1}}}', 0o600, "$.contexts[...].namesrv"),
        ('{"contexts": {"prod": {"namesrv": "h:1", "secretKey": "x"}}}', 0o600, "secretKey"),
        ('{"version": 2}', 0o600, "has version 2, this mqadmin reads version 1"),
        ("{}", 0o622, "may be written by other users; run chmod 600"),
    ],
)
def test_an_unusable_file_is_one_line(
    content: str, mode: int, complaint: str, capsys: pytest.CaptureFixture[str],
    contexts_file: Path,
) -> None:  # fmt: skip
    contexts_file.parent.mkdir(parents=True)
    contexts_file.write_text(content)
    contexts_file.chmod(mode)
    for words in (["topicList"], ["context", "list"], ["context", "add", "x", "-n", PROD]):
        assert main(words) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1, error
        assert str(contexts_file) in error
        assert complaint in error
    assert contexts_file.read_text() == content


def test_a_folder_in_place_of_the_file_is_one_line(
    capsys: pytest.CaptureFixture[str], contexts_file: Path
) -> None:
    contexts_file.mkdir(parents=True, mode=0o700)
    assert main(["topicList"]) == 2
    assert "cannot read the contexts in" in capsys.readouterr().err


@pytest.mark.parametrize("home", ["/dev/null", "/nonexistent/user"])
def test_a_user_without_a_home_folder_has_no_context(
    home: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", home)
    assert context(capsys, "list") == []


def test_a_user_that_is_not_known_cannot_save_a_context(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    assert context(capsys, "list") == []
    assert main(["context", "add", "prod", "-n", PROD]) == 2
    assert "set XDG_CONFIG_HOME" in capsys.readouterr().err


def test_a_link_to_the_file_stays_a_link(
    capsys: pytest.CaptureFixture[str], contexts_file: Path, tmp_path: Path
) -> None:
    contexts_file.parent.mkdir(parents=True)
    contexts_file.symlink_to(tmp_path / "dotfiles.json")
    context(capsys, "add", "prod", "-n", PROD)
    assert contexts_file.is_symlink()
    assert PROD in (tmp_path / "dotfiles.json").read_text()
    assert context(capsys, "list")[0]["name"] == "prod"


def test_a_context_whose_account_is_gone_is_named(
    capsys: pytest.CaptureFixture[str], account: Path
) -> None:
    context(capsys, "add", "prod", "-n", PROD, "--use", "--credentials", str(account))
    account.unlink()
    assert main(["topicList"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("mqadmin topicList: context 'prod': ")
    assert error.count("\n") == 1
    assert str(account) in error


def test_namesrv_addr_hides_the_current_context_and_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "10.0.0.3:9876")
    assert main(["context", "add", "prod", "-n", PROD, "--use"]) == 0
    assert "NAMESRV_ADDR is set, so commands do not use" in capsys.readouterr().err


def test_the_question_names_the_context(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    context(capsys, "add", "prod", "-n", "127.0.0.1:9876", "--use")
    screen = Terminal(monkeypatch, "n\n")
    words = ["deleteTopic", "-c", "DefaultCluster", "-t", "CliTopic"]
    from mqclient.admin import Admin

    cluster = RecordedCluster("deleteTopic")
    assert main(words, lambda _given: Admin("127.0.0.1:9876", transport=cluster)) == 1
    assert screen.errors.startswith("Context prod: 127.0.0.1:9876\nThis will delete ")
