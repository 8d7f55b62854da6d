"""Starting past click means the same as through it."""

from __future__ import annotations

import subprocess
import sys

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
