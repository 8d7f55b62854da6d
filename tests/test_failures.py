"""How all five commands end: a defect exits 70, a reader that goes away is no error."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import pytest

from mqadmin import main as mqadmin_main
from mqclient.cli import main as mqclient_main
from mqcommon.cli.moments import read_milliseconds, read_moment, read_start
from mqserver import cli as mqserver_cli
from mqstore.cli import main as mqstore_main

Main = Callable[[Sequence[str]], int]


def broken(*_arguments: object, **_options: object) -> None:
    raise KeyError("not there")


def mqserver_main(words: Sequence[str]) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["mqserver", *words])
        return mqserver_cli.main()


def mqpipeline_main(words: Sequence[str]) -> int:
    from mqpipeline.cli.main import main

    return main(words)


CASES: dict[str, tuple[str, Main, list[str]]] = {
    "mqclient": ("mqclient.cli.tail.reading_of", mqclient_main, ["tail", "T"]),
    "mqadmin": ("mqclient.admin.topics.Topics.names", mqadmin_main, ["topicList"]),
    "mqserver": ("mqserver.commands.broker.check_broker", mqserver_main, ["broker", "check"]),
    "mqstore": ("mqstore.cli.ls.open_store", mqstore_main, ["ls", "."]),
    "mqpipeline": ("mqpipeline.jobs.dlq.plan_dlq", mqpipeline_main, ["dlq", "g", "--dry-run"]),
}


@pytest.mark.parametrize("program", CASES)
def test_a_defect_is_one_line_and_exit_code_70(
    program: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if program == "mqpipeline":
        pytest.importorskip("pyspark.sql", exc_type=ImportError)
    target, main, words = CASES[program]
    monkeypatch.setattr(target, broken)
    assert main(words) == 70
    (line,) = capsys.readouterr().err.splitlines()
    assert f"this is a defect of {program}: KeyError: 'not there'" in line
    assert "--debug" in line
    assert main([*words, "--debug"]) == 70
    err = capsys.readouterr().err
    assert err.startswith("Traceback (most recent call last)")
    assert "in broken" in err
    assert "Usage" not in err


def test_a_server_leaves_the_traceback_in_its_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    target, main, words = CASES["mqserver"]
    monkeypatch.setattr(target, broken)
    assert main(words) == 70
    (record,) = [found for found in caplog.records if found.name == "mqserver"]
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], KeyError)


def test_a_type_error_is_no_wrong_usage(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def wrong(_error: object) -> None:
        raise TypeError("a defect")

    monkeypatch.setattr("mqclient.cli.tail.reading_of", wrong)
    assert mqclient_main(["tail", "T"]) == 70
    assert "TypeError: a defect" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["mqclient.cli", "--help"],
        ["mqadmin"],
        ["mqadmin", "help", "topicList"],
        ["mqserver.cli", "broker", "start", "-p"],
        ["mqstore.cli", "--help"],
        ["mqpipeline.cli", "--help"],
    ],
    ids=" ".join,
)
def test_a_reader_that_goes_away_is_no_error(words: list[str]) -> None:
    call = f"import sys, {words[0]} as cli; sys.exit(cli.main())"
    command = subprocess.Popen(
        [sys.executable, "-c", call, *words[1:]],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert command.stdout is not None
    command.stdout.close()
    assert command.stderr is not None
    assert command.stderr.read() == ""
    assert command.wait(60) == 0


@pytest.mark.parametrize(
    ("text", "ago"),
    [
        ("-30s", timedelta(seconds=30)),
        ("-5m", timedelta(minutes=5)),
        ("-1.5h", timedelta(hours=1.5)),
        ("-7d", timedelta(days=7)),
    ],
)
def test_times_before_now(text: str, ago: timedelta) -> None:
    before = datetime.now(UTC)
    moment = read_moment(text)
    assert before <= moment + ago <= datetime.now(UTC)


def test_times_and_words() -> None:
    assert read_start("earliest") == "earliest"
    assert read_start("latest") == "latest"
    assert read_start("1700000000123") == datetime(2023, 11, 14, 22, 13, 20, 123000, UTC)
    assert read_milliseconds("2023-11-14T22:13:20.123") == 1700000000123
    for text in ("-1y", "-h", "1h", "-99999999d", "yesterday"):
        with pytest.raises(ValueError, match="is not a time"):
            read_start(text)
