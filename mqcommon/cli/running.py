"""Runs a command and turns its result or error into an exit code and one error line."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import click

from mqcommon.cli import exit_codes
from mqcommon.cli.error_line import say_error
from mqcommon.cli.shortage import telling_shortage

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
    """The end of a failed command: its line on standard error and its exit code."""

    text: str
    code: int = exit_codes.FAILED


class CommandError(click.ClickException):
    """Ends a command with a line on standard error and an exit code."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.exit_code = code  # type: ignore[misc]  # click has one for each class


class WrongArguments(Exception):
    """An argument of the user cannot be used; the text gives the reason. Exit code 2."""


@contextmanager
def refusing_arguments() -> Iterator[None]:
    """Use this around calls that check arguments of the user: their ValueError is a usage error.

    A ValueError from anywhere else is a defect.
    """
    try:
        yield
    except ValueError as error:
        raise WrongArguments(str(error)) from error


Judge = Callable[[Exception], Failure | None]
"""Translates an exception for the user; None means that it is a defect."""


def run(
    program: str,
    work: Callable[[], object],
    judge: Judge,
    *,
    label: str | None = None,
    needs_mib: int = 0,
) -> int:
    """Run a command and return its exit code: the int that `work` returns, or 0.

    If the reader of standard output closes the pipe, the command ends with 0. An error that `judge`
    does not know is a defect: it gives one line and exit code 70, and a traceback after
    `show_tracebacks`. label: start of the error lines, default the program's name. needs_mib:
    address space that the command usually needs, for the advice when memory is short; 0 if it
    depends on the input.
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
        if type(error).__name__ != "PanicException":  # raised by the compiled core
            raise
        say_error(label or program, _defect(program, error).text)
        return exit_codes.DEFECT


_shows_tracebacks = False


def show_tracebacks(wanted: bool = True) -> None:
    """Let the running command write the traceback of a defect (`--debug`)."""
    global _shows_tracebacks
    _shows_tracebacks = wanted


def _defect(program: str, error: BaseException) -> Failure:
    """The error line for a defect, an error that no user can cause."""
    if _shows_tracebacks:
        traceback.print_exception(error)
        hint = "please report it with the traceback above"
    else:
        hint = "run it again with --debug to see the traceback"
    words = traceback.format_exception_only(error)[-1].strip().replace("\n", " ")
    return Failure(f"this is a defect of {program}: {words}; {hint}", exit_codes.DEFECT)


def failure_of(error: Exception) -> Failure | None:
    """Translate errors that any command may raise."""
    if isinstance(error, WrongArguments):
        return Failure(str(error), exit_codes.USAGE)
    if isinstance(error, ImportError):  # its text names the extra
        return Failure(str(error))
    if isinstance(error, OSError) and error.strerror:
        return Failure(f"{error.filename}: {error.strerror}" if error.filename else error.strerror)
    return Failure(str(error)) if isinstance(error, OSError) else None


def drop_output() -> None:
    """Drop unwritten output; otherwise the interpreter writes it at exit and fails again."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
