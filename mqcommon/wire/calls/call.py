"""A call: a request, and the reader of its answer. No IO.

call = offset_calls.max_offset(queue)
reply = await transport.call(address, call.request, timeout)
offset = call.result(reply, address)        # BrokerError when the code is not one expected
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from mqcommon.errors import BrokerError, ProtocolError
from mqcommon.wire.bodies.base import Body
from mqcommon.wire.codes import ResponseCode
from mqcommon.wire.frame import Frame
from mqcommon.wire.reply_bounds import check_fields

R = TypeVar("R")
_B = TypeVar("_B", bound=Body)
SUCCESS = frozenset((int(ResponseCode.SUCCESS),))


@dataclass(frozen=True, slots=True)
class Call(Generic[R]):
    """A request and the reader of its answer.

    accepts: response codes of success; `parse` turns such a reply into the result.
    """

    request: Frame
    parse: Callable[[Frame], R]
    accepts: frozenset[int] = SUCCESS

    def result(self, reply: Frame, server: str = "") -> R:
        """Read the reply. server: name of the server, for the error.

        Raises BrokerError if the reply's code is not one of `accepts`, ProtocolError if it cannot
        be read.
        """
        check_fields(reply, server)
        if reply.code not in self.accepts:
            raise BrokerError(reply.code, reply.remark, server)
        try:
            return self.parse(reply)
        except (ValueError, LookupError, TypeError, OverflowError) as error:
            raise ProtocolError(error, server) from error


def nothing(_reply: Frame) -> None:
    """The result of a call whose answer says no more than that it worked."""


def body_of(kind: type[_B]) -> Callable[[Frame], _B]:
    """An absent body is an empty object, as Java treats it."""
    return lambda reply: kind.from_json(reply.body or b"{}")
