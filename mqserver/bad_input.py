"""A request that cannot be read is its sender's fault: code 1 and one log line, no stack trace."""

from __future__ import annotations

import logging

from mqclient.wire.bodies.base import BodyError
from mqclient.wire.codes import ResponseCode
from mqclient.wire.headers.base import HeaderError
from mqserver.replies import Processor, Refused, Reply, Request

log = logging.getLogger("mqserver")


def refusing_bad_input(processor: Processor) -> Processor:
    """The same processor, answering code 1 when a header or body cannot be read."""

    def checked(request: Request) -> Reply:
        try:
            return processor(request)
        except (HeaderError, BodyError, UnicodeDecodeError, OverflowError) as error:
            log.warning("request %d from %s: %s", request.code, request.remote, error)
            raise Refused(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}") from error

    return checked
