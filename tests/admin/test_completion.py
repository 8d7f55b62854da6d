"""Completion of commands and options in shells."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from mqadmin import main
from mqadmin.catalogue import names
from mqadmin.completion import SHELLS, script


def completed(*words: str) -> list[str]:
    """What bash offers for the last word."""
    typed = " ".join(f"'{word}'" for word in ("mqadmin", *words))
    asked = f"COMP_WORDS=({typed}); COMP_CWORD={len(words)}; _mqadmin; echo ${{COMPREPLY[@]}}"
    done = subprocess.run(
        ["bash", "-c", f"{script(['bash'])}\n{asked}"], capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_bash_completes_commands_options_and_formats() -> None:
    assert completed("topicR") == ["topicRoute"]
    assert set(completed("")) >= {*(name.split()[0] for name in names()), "help", "completion"}
    assert completed("topicStatus", "--to") == ["--topic"]
    assert set(completed("printMsgByQueue", "--pri")) == {"--print-msg", "--printBody"}
    assert completed("topicList", "--output", "j") == ["json", "jsonl"]
    assert completed("help", "deleteT") == ["deleteTopic"]
    assert completed("offsets", "re") == ["reset"]
    assert "--dry-run" in completed("offsets", "reset", "--")
    assert completed("completion", "z") == ["zsh"]


def test_bash_completes_names_of_contexts() -> None:
    for name in ("prod", "test"):
        assert main(["context", "add", name, "-n", "h:1"]) == 0
    assert completed("topicList", "--context", "") == ["prod", "test"]
    assert completed("context", "use", "p") == ["prod"]
    assert "add" in completed("context", "")


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_of_each_shell_is_sound(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    text = capsys.readouterr().out
    assert all(word in text for name in names() for word in name.split())
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=text, text=True, check=True)


@pytest.mark.parametrize("words", [["completion"], ["completion", "tcsh"]])
def test_a_shell_must_be_named(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert capsys.readouterr().err == "mqadmin: usage: mqadmin completion bash|zsh|fish\n"
