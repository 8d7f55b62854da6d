"""Runs a command: what it returns or raises becomes an exit code and one line on standard error."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import click

from mqstore.commands import exit_codes
from mqstore.commands.error_line import say_error
from mqstore.commands.shortage import telling_shortage

__all__ = [
    "CommandError",
    "Failure",
    "Judge",
    "WrongArguments",
    "drop_output",
    "failure_of",
    "refusing_arguments",
    "run",
    "show_tracebacks",
]


class Failure(NamedTuple):
    """How a command that failed ends: its line on standard error, and its exit code."""

    text: str
    code: int = exit_codes.FAILED


class CommandError(click.ClickException):
    """Ends a command with a line on standard error and an exit code."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.exit_code = code  # type: ignore[misc]  # click has one for each class


class WrongArguments(Exception):
    """What the user gave cannot be used; the text says why. Exit code 2."""


@contextmanager
def refusing_arguments() -> Iterator[None]:
    """Around the calls that check what the user gave: their ValueError is a wrong usage.

    A ValueError from anywhere else is a defect.
    """
    try:
        yield
    except ValueError as error:
        raise WrongArguments(str(error)) from error


Judge = Callable[[Exception], Failure | None]
"""What an exception means to a user; None for a defect."""


def run(
    program: str,
    work: Callable[[], object],
    judge: Judge,
    *,
    label: str | None = None,
    needs_mib: int = 0,
) -> int:
    """Run a command and return its exit code: the int that `work` returns, else 0.

    A reader of standard output that goes away ends the command with 0. An error that `judge` does
    not know is a defect: one line and exit code 70, and the traceback after `show_tracebacks`.
    label: what its error lines begin with; the program's name unless given. needs_mib: address
    space that the command usually needs, for the advice when memory is short; 0 if that depends on
    its input.
    """
    show_tracebacks(False)
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
        drop_output()
        return exit_codes.OK
    except Exception as error:
        failure = judge(error) or _defect(program, error)
        say_error(label or program, failure.text)
        if isinstance(error, OSError):
            drop_output()
        return failure.code
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # of the compiled core
            raise
        say_error(label or program, _defect(program, error).text)
        return exit_codes.DEFECT


_shows_tracebacks = False


def show_tracebacks(wanted: bool = True) -> None:
    """Have the command that runs write the traceback of a defect (`--debug`)."""
    global _shows_tracebacks
    _shows_tracebacks = wanted


def _defect(program: str, error: BaseException) -> Failure:
    """What is said of an error that no user can cause."""
    if _shows_tracebacks:
        traceback.print_exception(error)
        hint = "please report it with the traceback above"
    else:
        hint = "run it again with --debug to see the traceback"
    words = traceback.format_exception_only(error)[-1].strip().replace("\n", " ")
    return Failure(f"this is a defect of {program}: {words}; {hint}", exit_codes.DEFECT)


def failure_of(error: Exception) -> Failure | None:
    """What the errors mean that any command may raise."""
    if isinstance(error, WrongArguments):
        return Failure(str(error), exit_codes.USAGE)
    if isinstance(error, ImportError):  # it names the extra
        return Failure(str(error))
    if isinstance(error, OSError) and error.strerror:
        return Failure(f"{error.filename}: {error.strerror}" if error.filename else error.strerror)
    return Failure(str(error)) if isinstance(error, OSError) else None


def drop_output() -> None:
    """Drop what standard output could not take, or the interpreter tries again at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
