"""Templates of requests that repeat: the shared part is prepared once per queue.

With the compiled transport, header and reply never become a `Frame` or a dict.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from mqcommon.wire.codes import SerializeType
from mqcommon.wire.frame import Frame

if TYPE_CHECKING:
    from mqclient.engine.client import Client

__all__ = ["Fields", "FrameTemplate", "Values"]

Fields = Sequence[tuple[str, str | None]]
"""A header's fields in wire order; None marks a field that each request fills."""

Values = tuple[str | int | None, ...]
"""The open fields of one request; None omits a field."""


class FrameTemplate:
    """One kind of request to one broker.

    address: the broker's, as advertised. reply: "sent" or "pulled", the form of a good answer from
    the compiled transport; other answers, and the answers of other transports, are Frames.
    """

    __slots__ = (
        *("_client", "_code", "_fields", "_native", "_transport"),
        *("address", "call", "post", "send"),
    )

    send: Callable[..., Awaitable[Any]]
    """`send(values, body, timeout, at_once=False)` sends a request and returns an awaitable of its
    reply. timeout: seconds. at_once: do not wait for other requests.
    Fails as the transport does; `explain` turns the failures into errors of the client."""
    call: Callable[[Values, bytes, float], Any]
    """`call(values, body, timeout)` sends a request from any thread and blocks until its reply is
    there; only for the compiled transport. Failures as with `send`."""
    post: Callable[[Values, bytes, float, Any, bool], None]
    """`post(values, body, timeout, pending, oneway)`; see `Transport.poster`."""

    def __init__(
        self,
        client: "Client",
        address: str,
        code: int,
        fields: Fields,
        reply: Literal["sent", "pulled"],
    ) -> None:
        self._client = client
        self.address = address
        self._code = int(code)
        self._fields = fields
        self._transport: Any = client.compiled_transport()
        self._native: Any = None
        self.send = self._send_frame
        if self._transport is not None:
            target = client.mapped(address)
            chosen = client.settings.connection.serialize
            serialize = int(SerializeType.ROCKETMQ if chosen is None else chosen)
            self._native = self._transport.template(
                target, self._code, list(fields), serialize, reply
            )
            self.send = partial(self._transport.request, self._native)
            self.call = partial(self._transport.block_on, self._native)
            self.post = self._transport.poster(self._native)

    def _send_frame(
        self, values: Values, body: bytes, timeout: float, at_once: bool = False
    ) -> Awaitable[Any]:
        return self._client.call_broker(self.address, self.frame(values, body), timeout)

    def oneway(self, values: Values, body: bytes, timeout: float) -> Awaitable[None]:
        """Send a oneway request; awaiting it ends when it is written."""
        if self._native is not None:
            future: Awaitable[None] = self._transport.request(
                self._native, values, body, timeout, False, True
            )
            return future
        return self._client.oneway(self.address, self.frame(values, body), timeout)

    def explain(self, error: Exception) -> Exception:
        """The client's error for an error of `send` or `call`."""
        if self._native is None:  # then it is a client error already
            return error
        return self._client.explain(self.address, error)

    def frame(self, values: Values, body: bytes) -> Frame:
        """The request as a frame."""
        return Frame(self._code, _filled(self._fields, values), body)


def _filled(fields: Fields, values: Values) -> dict[str, str]:
    given = iter(values)
    pairs = ((name, next(given) if fixed is None else fixed) for name, fixed in fields)
    return {name: str(value) for name, value in pairs if value is not None}
