"""The commands parse their arguments, and report wrong ones."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import mqserver.commands.broker
import mqserver.commands.namesrv
from mqserver.commands.main import cli


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
