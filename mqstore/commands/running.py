"""Runs a command: what it returns or raises becomes an exit code and one line on standard error."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import NamedTuple

import click

from mqstore.commands import exit_codes
from mqstore.commands.error_line import say_error
from mqstore.commands.shortage import telling_shortage

__all__ = ["CommandError", "Failure", "Judge", "failure_of", "run"]


class Failure(NamedTuple):
    """How a command that failed ends: its line on standard error, and its exit code."""

    text: str
    code: int = exit_codes.FAILED


class CommandError(click.ClickException):
    """Ends a command with a line on standard error and an exit code."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.exit_code = code  # type: ignore[misc]  # click has one for each class


Judge = Callable[[Exception], Failure | None]
"""What an exception means to a user; None for one that is a defect and keeps its traceback."""


def run(
    program: str,
    work: Callable[[], object],
    judge: Judge,
    *,
    label: str | None = None,
    broken_pipe: int = exit_codes.OK,
    needs_mib: int = 0,
) -> int:
    """Run a command and return its exit code: the int that `work` returns, else 0.

    label: what its error lines begin with; the program's name unless given. broken_pipe: the exit
    code when the reader of standard output is gone. needs_mib: address space that the command
    usually needs, for the advice when memory is short; 0 if that depends on its input.
    """
    try:
        with telling_shortage(program, needs_mib):
            result = work()
            sys.stdout.flush()
        return result if isinstance(result, int) else exit_codes.OK
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return exit_codes.INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        return broken_pipe
    except Exception as error:
        failure = judge(error)
        if failure is None:
            raise
        say_error(label or program, failure.text)
        if isinstance(error, OSError):
            _drop_output()
        return failure.code


def failure_of(error: Exception) -> Failure | None:
    """What the errors mean that any command may raise."""
    if isinstance(error, ImportError):  # it names the extra
        return Failure(str(error))
    if isinstance(error, OSError) and error.strerror:
        return Failure(f"{error.filename}: {error.strerror}" if error.filename else error.strerror)
    return Failure(str(error)) if isinstance(error, OSError) else None


def _drop_output() -> None:
    """Drop what standard output could not take, or the interpreter tries again at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
