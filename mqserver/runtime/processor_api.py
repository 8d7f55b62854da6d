"""The types of a processor's request and reply.

A processor is a function of one request. It returns a `Response`, a `Signal`, a `Hold` or an
`AgainAfter`; it raises `Refused` to answer an error. Any other exception is answered with code 1,
as in RocketMQ (`NettyRemotingAbstract`), and logged once, by the hand-off thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Protocol

from msgspec import Struct


class Request(Protocol):
    """One frame handed off by the Rust plane; answered exactly once."""

    @property
    def code(self) -> int:
        """Request code."""
        ...

    @property
    def version(self) -> int:
        """The sender's version ordinal."""
        ...

    @property
    def language(self) -> int:
        """The sender's language ordinal."""
        ...

    @property
    def fields(self) -> Mapping[str, str]:
        """Header fields; empty when the frame has none."""
        ...

    @property
    def body(self) -> bytes:
        """Body bytes; empty when the frame has none."""
        ...

    @property
    def connection(self) -> int:
        """The connection's number, unique in this process."""
        ...

    @property
    def remote(self) -> str:
        """The peer's address, "ip:port"."""
        ...

    @property
    def oneway(self) -> bool:
        """Whether the sender expects no reply."""
        ...

    @property
    def fast_port(self) -> bool:
        """Whether the request came in on the VIP port."""
        ...

    @property
    def attempt(self) -> int:
        """0 at first; 1 after `AGAIN`, or after a hold ended."""
        ...

    def respond(
        self,
        code: int,
        remark: str | None,
        fields: Mapping[str, str] | None,
        body: bytes | None,
    ) -> None:
        """Answer once, from any thread, after the processor returned `LATER`."""
        ...


class Response(Struct, frozen=True):
    """A reply. `fields` None leaves extFields out; an empty mapping writes `{}`."""

    code: int = 0
    remark: str | None = None
    fields: Mapping[str, str] | None = None
    body: bytes | None = None


class Signal(Enum):
    """Answers that are not a response."""

    NO_REPLY = "no reply"
    """Send no reply."""
    AGAIN = "again"
    """The processor changed the state: route the same frame once more."""
    LATER = "later"
    """The processor keeps the request and answers it later."""


NO_REPLY = Signal.NO_REPLY
AGAIN = Signal.AGAIN
LATER = Signal.LATER


class Hold(Struct, frozen=True):
    """Hold a pull until a matching message arrives or the timeout ends; then route it once more.

    offset: the queue offset that the pull waits for. timeout: seconds. tag_codes: None waits for
    any message.
    """

    topic: str
    queue_id: int
    offset: int
    timeout: float
    tag_codes: tuple[int, ...] | None = None


class AgainAfter(Struct, frozen=True):
    """Route the request again later, as `AGAIN` does at once; no thread waits meanwhile.

    start: called once with a function `go_on`. Call `go_on` from any thread: with None to route the
    request once more, or with the error that the request should fail with.
    """

    start: Callable[[Callable[[Exception | None], None]], None]


Reply = Response | Signal | Hold | AgainAfter
Processor = Callable[[Request], Reply]


class Refused(Exception):
    """Raised anywhere inside a processor to answer an error response."""

    def __init__(
        self, code: int, remark: str | None, fields: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(remark)
        self.response = Response(code, remark, fields)


class Family(Struct, frozen=True):
    """A bounded queue of requests and the Python threads that serve it.

    capacity: requests that may wait; a further one is answered code 2. threads: at least 1.
    rests: after each request a thread sleeps a multiple of the time that the request took, and it
    runs at a low priority, so that a flood of such requests leaves the CPU to other requests.
    """

    name: str
    capacity: int
    threads: int
    rests: bool = False
