"""Errors that a server's answer raises; `mqclient.errors` has the whole tree."""

from mqcommon.wire.codes import ResponseCode, name_of

__all__ = ["BrokerError", "MalformedReply", "RocketMQError"]


class RocketMQError(Exception):
    """Base of all errors of the client except ValueError and TypeError."""

    __module__ = "mqclient.errors"


class BrokerError(RocketMQError):
    """A broker or NameServer answered with an error.

    code: response code, see mqcommon.wire.ResponseCode. remark: the server's text, may be
    empty. broker: name or address of the server that answered.
    """

    __module__ = "mqclient.errors"

    def __init__(self, code: int, remark: str | None = None, broker: str = "") -> None:
        self.code = int(code)
        self.remark = remark or ""
        self.broker = broker
        super().__init__(code, remark, broker)

    def __str__(self) -> str:
        where = f"{self.broker} answered " if self.broker else ""
        words = f": {self.remark}" if self.remark else ""
        says_what_to_do = "; " in self.remark  # our servers' remarks end like this
        hint = "" if says_what_to_do else _HINTS.get(self.code, "")
        return f"{where}{name_of(self.code)}{words}{'; ' + hint if hint else ''}"


_HINTS: dict[int, str] = {
    ResponseCode.SYSTEM_BUSY: "the broker is overloaded, send slower or try again",
    ResponseCode.SERVICE_NOT_AVAILABLE: "the broker is stopping, is a slave or has no disk space",
    ResponseCode.NO_PERMISSION: "check the topic's perm and the broker's access control",
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: (
        "the group does not exist and autoCreateSubscriptionGroup is off"
    ),
}


class MalformedReply(RocketMQError):
    """A server's answer cannot be read: a field or the body is missing or malformed.

    server: name or address of the server. A request that changes something may have done so.
    """

    __module__ = "mqclient.errors"

    def __init__(self, what: object, server: str = "") -> None:
        self.server = server
        super().__init__(what, server)

    def __str__(self) -> str:
        who = self.server or "the server"
        return (
            f"{who} sent an answer that cannot be read: {self.args[0]}; check that it is a broker "
            f"or NameServer of RocketMQ, and its log"
        )
