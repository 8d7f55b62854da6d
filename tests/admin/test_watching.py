"""--watch: a command again and again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from mqadmin import main
from mqadmin.watching import CLEAR, repeat
from mqclient.errors import UnreachableError
from tests.admin.golden import RecordedCluster, connecting_to, text
from tests.admin.test_command_line import Terminal

Stop = Callable[[int], list[float]]


class Stopped(Exception):
    """The user stopped the command."""


@pytest.fixture
def stop_after(monkeypatch: pytest.MonkeyPatch) -> Stop:
    """Waits take no time, and end the command after some rounds; the waits in seconds."""

    def prepare(rounds: int) -> list[float]:
        waited: list[float] = []

        async def sleep(seconds: float) -> None:
            waited.append(seconds)
            if len(waited) == rounds:
                raise Stopped

        monkeypatch.setattr("mqadmin.watching.asyncio.sleep", sleep)
        return waited

    return prepare


def watched(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    cluster = RecordedCluster("topicStatus")
    line = ["topicStatus", "-t", "CliTopic", "-n", "127.0.0.1:9876", *words]
    return main(line, connecting_to(cluster))


def test_rocketmqs_text_is_repeated(
    stop_after: Stop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    waited = stop_after(3)
    watched(monkeypatch, "--watch", "2")
    assert capsys.readouterr().out == 3 * text("topicStatus")
    assert waited == [2, 2, 2]


def test_on_a_terminal_each_round_has_the_screen(
    stop_after: Stop, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_after(2)
    screen = Terminal(monkeypatch)
    watched(monkeypatch, "--watch", "0.5")
    before, *rounds = screen.text.split(CLEAR)
    assert before == ""
    assert len(rounds) == 2
    assert all(shown.startswith("every 0.5 s: mqadmin topicStatus   ") for shown in rounds)


async def test_a_failure_of_a_later_round_is_a_line(
    stop_after: Stop, capsys: pytest.CaptureFixture[str]
) -> None:
    stop_after(3)
    rounds: list[int] = []

    async def once() -> None:
        rounds.append(len(rounds))
        if rounds[-1] == 1:
            raise UnreachableError("the broker restarts")

    with pytest.raises(Stopped):
        await repeat(once, 1, "mqadmin topicStatus", clears=False)
    assert rounds == [0, 1, 2]
    assert capsys.readouterr().err == "mqadmin topicStatus: the broker restarts\n"


async def test_a_failure_of_the_first_round_ends_the_command() -> None:
    async def once() -> None:
        raise UnreachableError("wrong address")

    with pytest.raises(UnreachableError):
        await asyncio.wait_for(repeat(once, 1, "mqadmin x", clears=False), 60)
