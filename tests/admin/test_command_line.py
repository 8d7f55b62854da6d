"""The command line itself: list, help, unknown and unbuilt names, wrong options."""

from __future__ import annotations

import io
import pkgutil
import re
import sys
from importlib import import_module

import pytest

from mqadmin import catalogue, commands, main
from mqadmin.command import Arguments, Command, Option
from mqadmin.java_text import fixed, hash_order, java_map
from mqadmin.report import Report
from mqclient.admin import Admin
from mqclient.admin.versions import VERSION_NAMES, version_name
from mqcommon.names import java_hash
from tests.admin.golden import GOLDEN, text

main_module = sys.modules["mqadmin.main"]
CATALOGUE = "mqadmin/catalogue.py"
HELP = GOLDEN / "help-commands.txt"
HELP_BLOCKS = dict(block.split("\n", 1) for block in HELP.read_text().split("$ mqadmin help ")[1:])


@pytest.mark.parametrize("words", [[], ["help"], ["-h"]])
def test_without_a_command_all_of_rocketmqs_are_listed(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(catalogue, "OWN", [])
    assert main(words) == 0
    assert capsys.readouterr().out == text("help")


def commands_in_modules() -> dict[str, Command]:
    """Every command that a module of `commands/` defines, with the module's file."""
    return {
        f"{module.name.replace('.', '/')}.py: {name}": value
        for module in pkgutil.walk_packages(commands.__path__, f"{commands.__name__}.")
        for name, value in vars(import_module(module.name)).items()
        if isinstance(value, Command)
    }


def test_every_command_is_in_the_catalogue() -> None:
    for where, command in commands_in_modules().items():
        assert catalogue.full_name(command.name) == command.name, (
            f"{where}: the folder is none of SUBJECTS in {CATALOGUE}"
        )
        assert command.description or catalogue.is_rocketmqs(command.name), (
            f"{where}: give the Command a description"
        )
        assert catalogue.command_of(command.name) is command, (
            f"{where}: name the module after the command, or list it in MODULES of {CATALOGUE}"
        )


def test_the_subjects_hold_every_command_once() -> None:
    names = [name for names in catalogue.SUBJECTS.values() for name in names]
    assert sorted(names) == sorted([*catalogue.DESCRIPTIONS, *catalogue.OWN])
    assert catalogue.SUBJECT_TITLES.keys() == catalogue.SUBJECTS.keys()


@pytest.fixture
def say_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that RocketMQ lacks."""

    async def run(_admin: Admin, arguments: Arguments) -> Report:
        return Report([{"word": arguments.required("word")}], lambda: "said", columns=("word",))

    async def effect(_admin: Admin, arguments: Arguments) -> str:
        return f"destroy {arguments.text('word')}"

    options = [Option("w", "word", "What to say", required=True)]
    own = Command("sayWord", run, options, effect=effect, description="Say a word")
    monkeypatch.setattr(catalogue, "OWN", ["sayWord"])
    for module in (catalogue, main_module):
        monkeypatch.setattr(module, "command_of", {"sayWord": own}.get)


@pytest.mark.usefixtures("say_word")
def test_a_command_that_rocketmq_lacks(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    ours = "\nCommands that RocketMQ does not have:\n   sayWord              Say a word\n"
    assert ours in capsys.readouterr().out
    assert main(["help", "SAYWORD"]) == 0
    assert capsys.readouterr().out.startswith("usage: mqadmin sayWord [-h] [-n <arg>] -w <arg>\n")
    words = ["sayword", "-n", "127.0.0.1:1", "-w", "hello", "--yes"]
    assert main(words) == 0
    assert capsys.readouterr().out == '{"word": "hello"}\n'


@pytest.mark.usefixtures("say_word")
def test_a_destructive_command_needs_an_address_and_a_yes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    assert main(["sayWord", "-w", "a", "--yes"]) == 2
    assert "needs an address: give -n HOST:PORT or --context" in capsys.readouterr().err
    monkeypatch.setenv("NAMESRV_ADDR", "127.0.0.1:1")
    assert main(["sayWord", "-w", "a"]) == 2
    assert "confirm it with --yes" in capsys.readouterr().err
    assert main(["sayWord", "-w", "a", "--yes"]) == 0


@pytest.mark.usefixtures("say_word")
@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("\n", 1), ("n\n", 1), ("", 1)])
def test_on_a_terminal_the_user_sees_the_effect_and_says_yes(
    answer: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Terminal(monkeypatch, answer)
    assert main(["sayWord", "-n", "127.0.0.1:1", "-w", "a"]) == code
    assert screen.errors.startswith("This will destroy a.\nContinue? [y/N] ")
    shown = re.findall(r"^(word|a)\b", re.sub(r"\x1b\[\d*m", "", screen.text), re.MULTILINE)
    assert shown == ([] if code else ["word", "a"])


class Terminal:
    """Standard streams that are a terminal; the user types `answer`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, answer: str = "") -> None:
        self._out, self._err = TerminalText(), TerminalText()
        monkeypatch.setattr("sys.stdin", TerminalText(answer))
        monkeypatch.setattr("sys.stdout", self._out)
        monkeypatch.setattr("sys.stderr", self._err)

    @property
    def text(self) -> str:
        return self._out.getvalue()

    @property
    def errors(self) -> str:
        return self._err.getvalue()


class TerminalText(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_the_commands_are_listed_by_subject(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal(monkeypatch)
    assert main([]) == 0
    first, *_ = screen.text.split("\n\n")
    assert first.splitlines()[:2] == ["Topics:", "   updateTopic          Update or create topic"]
    assert all(f"   {name} " in screen.text for name in catalogue.DESCRIPTIONS)


@pytest.mark.parametrize("name", sorted(filter(catalogue.is_rocketmqs, catalogue.names())))
def test_help_is_java_s(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", name]) == 0
    output = capsys.readouterr().out
    assert name in HELP_BLOCKS, f"record RocketMQ's help of {name} in {HELP}"
    # The recording has {tmp} for the folder of temporary files.
    assert output.startswith(HELP_BLOCKS[name].replace("{tmp}", "/tmp").rstrip("\n") + "\n")
    assert "--output rocketmq|table|json|jsonl|csv" in output


def test_names_are_not_case_sensitive(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["TOPICROUTE", "-h"]) == 0
    assert capsys.readouterr().out.startswith("usage: mqadmin topicRoute ")


def test_an_unknown_command_is_said_in_java_s_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nosuchcommand"]) == 2
    assert capsys.readouterr().err == text("unknown-command")


@pytest.mark.parametrize(
    ("word", "near"),
    [("topicRoutes", "topicRoute"), ("UPDATETOPICPERMS", "updateTopicPerm or updateTopic")],
)
def test_a_mistyped_command_gets_the_nearest_names(
    word: str, near: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([word]) == 2
    said = f"The sub command {word} not exist.\nmqadmin: did you mean {near}?\n"
    assert capsys.readouterr().err == said


def test_a_missing_option_shows_the_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topicRoute", "-n", "127.0.0.1:1"]) == 2
    errors = capsys.readouterr().err
    assert "Missing required option: t" in errors
    assert errors.endswith(text("topicRoute-nooption"))


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["updateTopic", "-t", "T"], "give exactly one of -b (brokerAddr) or -c (clusterName)"),
        (["updateTopic", "-t", "T", "-b", "h:1", "-c", "C"], "give exactly one of"),
        (["updateTopic", "-t", "T", "-c", "C", "-r", "many"], "--readQueueNums must be a whole"),
        (["topicStatus", "--topik", "T"], "Did you mean"),
        (["topicList", "--watch", "0"], "--watch"),
        (["topicList", "--colour"], "No such option '--colour'"),
        (["topicRoute", "-t", "T", "--output", "xml"], "xml"),
        (["queryMsgById", "-i", "C000020A5CC2"], "is not 32 or 56 hex digits"),
    ],
)
def test_wrong_options_are_exit_code_2(
    words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "-n", "127.0.0.1:1"]) == 2
    assert complaint in capsys.readouterr().err


def test_an_address_that_is_none_is_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topicList", "-n", "no port here:x"]) == 2
    assert "is not an address" in capsys.readouterr().err


def test_java_text() -> None:
    assert java_hash("TagA") == 2598919
    assert java_map({"KEYS": "k", "UNIQ_KEY": "u", "CLUSTER": "c", "TAGS": "t"}) == (
        "{KEYS=k, UNIQ_KEY=u, CLUSTER=c, TAGS=t}"
    )
    assert fixed(0.125, 2) == "0.13"
    assert fixed(2.675, 2) == "2.68"
    assert hash_order(["b", "a", "b"]) == ["a", "b"]


def test_version_names() -> None:
    assert (version_name(0), version_name(407)) == ("V3_0_0_SNAPSHOT", "V4_9_7")
    assert len(VERSION_NAMES) == 613
    assert version_name(10_000) == "HIGHER_VERSION"


def test_a_value_may_begin_with_a_dash() -> None:
    command = catalogue.command_of("resetOffsetByTime")
    assert command.parse(["-g", "g", "-t", "T", "-s", "-1"]).text("timestamp") == "-1"
