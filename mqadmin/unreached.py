"""Servers that did not answer while a command continued, as RocketMQ's commands do.

RocketMQ's text shows empty cells for them. A program that reads JSON or CSV could not tell them
from true figures, so there the command ends with an error (`Report.failure`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mqclient.cli.failures import is_denied
from mqclient.errors import ClientTimeout, RocketMQError, UnreachableError

__all__ = ["Unreached"]

_SHOWN_MAX = 5
"""Most servers that the error names."""


class Unreached:
    """The failures of one run of a command. count: number of failures so far."""

    def __init__(self) -> None:
        self._errors: dict[str, RocketMQError] = {}
        self.count = 0

    @contextmanager
    def passed_over(self, *, refusals: bool = False) -> Iterator[Callable[[], bool]]:
        """Continue after an error of the client in the block; note that a server did not answer, or
        refused the account. Gives a function that says after the block whether that was noted.

        refusals: note every answer with an error. Without it such an answer is a figure that does
        not exist: the topic was deleted meanwhile, or nothing was counted.
        """
        is_noted = False
        try:
            yield lambda: is_noted
        except RocketMQError as error:
            is_silent = isinstance(error, UnreachableError | ClientTimeout)
            if refusals or is_silent or is_denied(error):
                is_noted = True
                self.count += 1
                self._errors[str(error)] = error

    @property
    def failure(self) -> RocketMQError | None:
        """The error, or an error that names the servers; None if all answered."""
        if len(self._errors) <= 1 or all(map(is_denied, self._errors.values())):
            return next(iter(self._errors.values()), None)
        texts = list(self._errors)
        more = len(texts) - _SHOWN_MAX
        shown = texts[:_SHOWN_MAX] + ([f"and {more} more"] if more > 0 else [])
        return UnreachableError("; ".join(shown))
