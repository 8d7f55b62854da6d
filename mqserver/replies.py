"""What a processor gets and what it answers: the hand-off contract in types.

A processor is a function of one request. It returns a `Response`, or one of the signals below, or
a `Hold`; it may raise `Refused` to answer an error. Any other exception becomes code 1, as in
RocketMQ (`NettyRemotingAbstract`), logged once where the hand-off threads call the processor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Protocol


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
        """No reply is expected."""
        ...

    @property
    def fast_port(self) -> bool:
        """Came in by the VIP listener."""
        ...

    @property
    def attempt(self) -> int:
        """0 at first, 1 after `AGAIN` or when a hold ended."""
        ...

    def respond(
        self,
        code: int,
        remark: str | None,
        fields: Mapping[str, str] | None,
        body: bytes | None,
    ) -> None:
        """Answer from a callback, once, after `LATER`; from any thread."""
        ...


@dataclass(frozen=True, slots=True)
class Response:
    """A reply. `fields` None leaves extFields out; an empty mapping writes `{}`."""

    code: int = 0
    remark: str | None = None
    fields: Mapping[str, str] | None = None
    body: bytes | None = None


class Signal(Enum):
    """Answers that are not a response."""

    NO_REPLY = "no reply"
    """Consume the request in silence."""
    AGAIN = "again"
    """The state changed: route the same frame afresh, once."""
    LATER = "later"
    """The processor keeps the request and answers it from a callback."""


NO_REPLY = Signal.NO_REPLY
AGAIN = Signal.AGAIN
LATER = Signal.LATER


@dataclass(frozen=True, slots=True)
class Hold:
    """Park a pull until a matching message arrives or the time is up; then it comes once more.

    offset: the queue offset waited for. timeout: seconds. tag_codes: None waits for any message.
    """

    topic: str
    queue_id: int
    offset: int
    timeout: float
    tag_codes: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class AgainAfter:
    """As `AGAIN`, but later; no thread waits for it.

    start: called once with what to call, from any thread, when it is time: with None, or with the
    error that the request is to fail with.
    """

    start: Callable[[Callable[[Exception | None], None]], None]


Reply = Response | Signal | Hold | AgainAfter
Processor = Callable[[Request], Reply]


class Refused(Exception):
    """Answers an error response from deep inside a processor."""

    def __init__(
        self, code: int, remark: str | None, fields: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(remark)
        self.response = Response(code, remark, fields)


@dataclass(frozen=True, slots=True)
class Family:
    """A bounded queue of requests and the Python threads that serve it.

    capacity: requests that may wait; beyond it code 2. threads: hand-off threads, at least 1.
    rests: after each request a thread rests for some times as long as it worked, and others get a
    core before it does: a flood of such requests leaves the machine to others.
    """

    name: str
    capacity: int
    threads: int
    rests: bool = False
