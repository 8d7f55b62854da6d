"""`mqserver broker check` warns about ignored settings; with --strict they are errors."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from mqserver.commands.main import cli

IGNORED = {
    "brokerNam=a": "1: unknown key brokerNam, ignored; did you mean brokerName?",
    "highSpeedMode=true": "1: highSpeedMode has no effect here: RocketMQ does not use it either",
}


@pytest.mark.parametrize("line", IGNORED)
def test_what_is_ignored_is_an_error_if_strict(tmp_path: Path, line: str) -> None:
    file = tmp_path / "broker.conf"
    file.write_text(f"{line}\n")
    lax = CliRunner().invoke(cli, ["broker", "check", "-c", str(file)])
    assert lax.exit_code == 0
    assert f"mqserver: warning: {file}:{IGNORED[line]}" in lax.stderr
    assert lax.stdout.endswith(" 1 warnings\n")
    strict = CliRunner().invoke(cli, ["broker", "check", "--strict", "-c", str(file)])
    assert strict.exit_code == 2
    assert strict.stderr == f"mqserver: error: {file}:{IGNORED[line]}\n"
    assert strict.stdout == ""


def test_a_file_without_fault_is_fine_if_strict(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("brokerName=a\nhighSpeedMode=false\n")
    done = CliRunner().invoke(cli, ["broker", "check", "--strict", "-c", str(file)])
    assert (done.exit_code, done.stderr) == (0, "")


def test_what_is_set_after_the_file_is_looked_at_too() -> None:
    words = ["broker", "check", "--strict", "--set", "highSpeedMode=true"]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 2
    text = IGNORED["highSpeedMode=true"].removeprefix("1: ")
    assert done.stderr == f"mqserver: error: --set: {text}\n"


def test_a_delay_longer_than_the_retention_is_a_warning(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("messageDelayLevel=1s 71h 72h 4d\n")
    done = CliRunner().invoke(cli, ["broker", "check", "--strict", "-c", str(file)])
    assert done.exit_code == 2
    assert "the delays 72h 4d are not shorter than fileReservedTime=72 hours" in done.stderr
    file.write_text("messageDelayLevel=1s 71h 72h 4d\nfileReservedTime=97\n")
    done = CliRunner().invoke(cli, ["broker", "check", "--strict", "-c", str(file)])
    assert (done.exit_code, done.stderr) == (0, "")
