"""The commands parse their arguments, and report wrong ones."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner

import mqserver.commands.broker
import mqserver.commands.namesrv
from mqserver.commands.command_runtime import judge
from mqserver.commands.main import cli
from mqserver.config.loaded import SettingsError


@pytest.mark.parametrize(
    ("words", "given"),
    [
        ("broker start", (None, None, {})),
        ("broker start -c b.conf", ("b.conf", None, {})),
        ("broker start --configFile b.conf -n h:1;i:2", ("b.conf", "h:1;i:2", {})),
        ("broker start -n h:1 --set a=b --set c=d=e -c x", ("x", "h:1", {"a": "b", "c": "d=e"})),
        ("broker start --set empty=", (None, None, {"empty": ""})),
        ("namesrv start -c n.conf --set listenPort=1", ("n.conf", {"listenPort": "1"})),
        ("namesrv start -n ignored:1", (None, {})),
    ],
)
def test_a_start_gets_its_options(
    words: str, given: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[object, ...]] = []

    def run(*given: object, show: str) -> None:
        assert show == ""
        seen.append(given)

    monkeypatch.setattr(mqserver.commands.broker, "run_broker", run)
    monkeypatch.setattr(mqserver.commands.namesrv, "run_namesrv", run)
    assert CliRunner().invoke(cli, words.split()).exit_code == 0
    assert seen == [given]


@pytest.mark.parametrize("words", ["broker start --set nonsense", "broker start -c", "broker x"])
def test_a_wrong_start_is_a_usage_error(words: str) -> None:
    assert CliRunner().invoke(cli, words.split()).exit_code == 2


@pytest.mark.parametrize(
    ("words", "origin"),
    [
        ("broker start --set brokerNmae=x", "--set"),
        ("broker start -p --set brokerNmae=x", "--set"),
        ("broker check --set brokerNmae=x", "--set"),
        ("namesrv start --set listenPrt=1", "--set"),
        ("standalone --set brokerNmae=x", "--set"),
        ("standalone --set-namesrv listenPrt=1", "--set-namesrv"),
    ],
)
def test_a_start_refuses_an_unknown_key(
    words: str, origin: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(SettingsError, match=f"^{origin}: unknown key .*; did you mean ") as refused:
        CliRunner().invoke(cli, words.split(), catch_exceptions=False)
    failure = judge(refused.value)
    assert failure is not None and failure.code == 2
    assert not list(tmp_path.iterdir()), "a temporary store is removed"


def test_a_word_that_is_no_setting_names_its_flag() -> None:
    ended = CliRunner().invoke(cli, ["standalone", "--set-namesrv", "nonsense"])
    assert ended.exit_code == 2
    assert "--set-namesrv: 'nonsense' is not KEY=VALUE" in ended.stderr


def test_a_file_in_the_place_of_a_folder_is_named(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    for words in (
        ["standalone", "--data", str(path)],
        ["broker", "start", "--set", f"storePathRootDir={path}", "--set", "listenPort=0"],
    ):
        run = [sys.executable, "-m", "mqserver.cli", *words]
        ended = subprocess.run(run, capture_output=True, text=True, timeout=60, check=False)
        assert ended.returncode == 1
        *log, error = ended.stderr.splitlines()
        assert re.fullmatch(rf"mqserver: {path}/\w+: Not a directory", error)
        assert all(" INFO " in line for line in log), "nothing but the log stands before it"
