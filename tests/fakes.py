"""A request without a socket."""

from __future__ import annotations

from dataclasses import dataclass, field

from mqcommon.wire.codes import VERSION_4_9_7
from mqcommon.wire.frame import Frame
from mqserver.runtime.processor_api import Processor, Refused, Reply, Response


@dataclass
class FakeRequest:
    """The fields of a frame that processors read."""

    code: int
    fields: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    version: int = VERSION_4_9_7
    language: int = 0
    connection: int = 1
    remote: str = "127.0.0.1:50000"
    oneway: bool = False
    fast_port: bool = False
    attempt: int = 0


def request_of(frame: Frame, connection: int = 1, remote: str = "127.0.0.1:50000") -> FakeRequest:
    """The request for a frame."""
    return FakeRequest(
        frame.code,
        dict(frame.fields),
        frame.body,
        frame.version,
        frame.language or 0,
        connection,
        remote,
        frame.is_oneway,
    )


def answer(processor: Processor, request: FakeRequest) -> Reply:
    """Call a processor as the hand-off threads do."""
    try:
        return processor(request)
    except Refused as refused:
        return refused.response
    except Exception as error:
        return Response(1, f"{type(error).__name__}: {error}")
