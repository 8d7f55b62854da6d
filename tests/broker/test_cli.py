"""Starting past click means the same as through it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import mqserver.running
from mqserver.cli import plain_start
from mqserver.commands import cli


@pytest.mark.parametrize(
    "words",
    [
        "broker start",
        "broker start -c b.conf",
        "broker start --configFile b.conf -n h:1;i:2",
        "broker start -n h:1 --set a=b --set c=d=e -c x",
        "broker start --set empty=",
        "namesrv start -c n.conf --set listenPort=1",
        "namesrv start",
    ],
)
def test_plain_starts_are_read_as_click_reads_them(
    words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[object, ...]] = []
    monkeypatch.setattr(
        mqserver.running, "run_broker", lambda *given, show: seen.append(("broker", *given))
    )
    monkeypatch.setattr(
        mqserver.running, "run_namesrv", lambda *given, show: seen.append(("namesrv", *given))
    )
    assert CliRunner().invoke(cli, words.split()).exit_code == 0
    start = plain_start(words.split())
    assert start is not None
    given: list[object] = [start.server, start.file]
    if start.server == "broker":
        given.append(start.namesrv)
    assert seen == [(*given, start.settings)]


@pytest.mark.parametrize(
    "words",
    [
        "",
        "broker",
        "broker check -c x",
        "broker start -p",
        "broker start -m",
        "broker start -h",
        "broker start --set nonsense",
        "broker start --unknown x",
        "broker start -c",
        "quickstart",
        "standalone --data x",
    ],
)
def test_everything_else_is_clicks(words: str) -> None:
    assert plain_start(words.split()) is None


def test_a_start_leaves_inspect_for_who_uses_it():
    work = """
import sys
from pathlib import Path
from mqserver.cli import _Later
sys.modules["inspect"] = _Later("inspect")
import mqserver.broker.broker, dataclasses, inspect
assert "ast" not in sys.modules
assert str(dataclasses.inspect.signature(lambda a: a)) == "(a)"
import inspect
assert inspect is sys.modules["inspect"] and inspect.__file__ and "ast" in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", work], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


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
        assert re.fullmatch(rf"mqserver: {path}/\w+: Not a directory\n", ended.stderr)
