"""The part of `mqcommon._core` with sends and their replies.

There is no module of this name: `_core.pyi` re-exports all of it.
"""

from collections.abc import Callable
from typing import Any, Final, Self, final

class Pending:
    """A send that no thread waits for; `Connector.drain` settles it when the message is stored.

    Subclass it to give it `set_result` and `set_exception`, which get every other outcome, and
    any outcome once it is watched. accepted: `drain` counts its end there. size: bytes that count.
    on_done: if given, it is watched from its beginning.
    """

    def __new__(
        cls,
        accepted: Accepted,
        size: int,
        path: object,
        msg_id: str,
        posts: object,
        outgoing: object,
        started: float,
        timeout: float,
        on_done: object,
    ) -> Self: ...
    @property
    def accepted(self) -> Accepted: ...
    @property
    def size(self) -> int: ...
    @property
    def path(self) -> Any: ...
    @property
    def msg_id(self) -> str: ...
    @property
    def send(self) -> tuple[Any, Any, float, float, Any] | None:
        """(posts, outgoing, started, timeout, on_done); None once it is settled."""
    @property
    def reply(self) -> SentReply | None:
        """The reply with which `drain` settled it."""
    @property
    def outcome(self) -> Any:
        """What `settle` got, or None."""
    @property
    def is_settled(self) -> bool:
        """Whether there is a reply or an outcome."""
    def settle(self, outcome: object) -> None:
        """Keep an outcome, and forget the message."""
    def watch(self) -> bool:
        """Let `drain` pass the outcome on. Returns whether there was none yet."""

@final
class SendCounts:
    """Messages and bytes of one producer in flight, within limits; safe for threads.

    One send may exceed a limit alone. on_left: called with an `Accepted` when sends of it have
    ended and somebody waits for that.
    """

    def __new__(
        cls, messages_max: int, bytes_max: int, on_left: Callable[[Accepted], object]
    ) -> Self: ...
    @property
    def messages(self) -> int: ...
    @property
    def size(self) -> int:
        """Bytes that count."""
    def accept(self, count: int, size: int) -> Accepted | None:
        """Count a send, until `Accepted.leave`. None if there is no room, or others wait for it."""
    def accept_waiting(self, count: int, size: int, quarters: int) -> Accepted | None:
        """Do so for a send that waits, if there is room in this many quarters of the limits."""
    def wait(self, is_waited: bool) -> None:
        """Say whether sends wait for room."""
    def begin_flush(self) -> Accepted:
        """The sends that were accepted so far; later ones belong to another `Accepted`."""

@final
class Accepted:
    """Sends that were accepted between two flushes."""

    @property
    def messages(self) -> int:
        """Messages without an outcome."""
    def leave(self, count: int, size: int) -> None:
        """End sends."""

@final
class SentReply:
    """A broker's reply to a send that it stored; see mqclient.producer.results.Stored."""

    code: Final[int]
    offset_msg_id: Final[str]
    queue_id: Final[int]
    queue_offset: Final[int]
    transaction_id: Final[str | None]
    region_id: Final[str | None]
    trace_on: Final[bool]
