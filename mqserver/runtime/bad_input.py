"""Answers a request that cannot be read with code 1 and one log line, without a stack trace."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from mqcommon.wire.bodies.base import BodyError
from mqcommon.wire.codes import ResponseCode
from mqcommon.wire.headers.base import HeaderError
from mqserver.runtime.processor_api import Refused, Reply, Request

log = logging.getLogger("mqserver")
Context = TypeVar("Context")


def refusing_bad_input(
    handler: Callable[[Context, Request], Reply],
) -> Callable[[Context, Request], Reply]:
    """The same handler; it answers code 1 when a header or body cannot be read."""

    def checked(context: Context, request: Request) -> Reply:
        try:
            return handler(context, request)
        except (HeaderError, BodyError, UnicodeDecodeError, OverflowError) as error:
            log.warning("request %d from %s: %s", request.code, request.remote, error)
            raise Refused(ResponseCode.SYSTEM_ERROR, _worded(error)) from error

    return checked


def _worded(error: Exception) -> str:
    """The error in words that do not need knowledge of Python."""
    if isinstance(error, UnicodeDecodeError):
        return "the body is not UTF-8 text"
    if isinstance(error, OverflowError):
        return "a number is out of range"
    return f"{type(error).__name__}: {error}"
