"""Signed registrations: a broker and its NameServers share `registrationSecret`.

A signature is HMAC-SHA256 over the request's code, all header fields and the body. Two of the
fields are a time and a nonce, so a NameServer refuses a recorded request that is sent again.
RocketMQ's NameServers ignore header fields that they do not know.
"""

from __future__ import annotations

import hmac
import os
import threading
import time
from collections.abc import Callable, Mapping

from mqcommon.wire.codes import ResponseCode
from mqserver.runtime.processor_api import Refused, Request

KEY = "registrationSecret"
SIGNATURE, TIME, NONCE = "registrationSignature", "registrationTime", "registrationNonce"
AGE_MAX_MS = 300_000
"""Largest difference between a request's time and the NameServer's clock."""
_NONCE_BYTES = 16


def sign(
    secret: str, code: int, fields: Mapping[str, str], body: bytes, now_ms: int | None = None
) -> dict[str, str]:
    """The header fields that sign a request. now_ms: wall clock; None reads it."""
    made = {
        TIME: str(_now_ms() if now_ms is None else now_ms),
        NONCE: os.urandom(_NONCE_BYTES).hex(),
    }
    made[SIGNATURE] = _signature(secret, code, {**fields, **made}, body)
    return made


class SignatureCheck:
    """Checks the signatures of registrations; without a secret it accepts every request.

    now_ms: wall clock.
    """

    def __init__(self, secret: str, now_ms: Callable[[], int] | None = None) -> None:
        self._secret = secret
        self._now_ms = now_ms or _now_ms
        self._lock = threading.Lock()
        self._taken: dict[str, int] = {}

    @property
    def is_on(self) -> bool:
        """Whether there is a secret."""
        return bool(self._secret)

    def check(self, request: Request) -> None:
        """Raises Refused unless the request is signed with the secret and arrives once."""
        if not self._secret:
            return
        given = request.fields.get(SIGNATURE)
        if given is None:
            raise _refusal(f"the request is not signed; set {KEY} on the broker too")
        wanted = _signature(self._secret, request.code, request.fields, request.body)
        if not hmac.compare_digest(given.encode(), wanted.encode()):
            raise _refusal(
                f"the signature is wrong; {KEY} must be the same on broker and NameServer"
            )
        self._check_time(request.fields.get(TIME, ""), request.fields.get(NONCE, ""))

    def _check_time(self, text: str, nonce: str) -> None:
        """Refuse an old or repeated request.

        Called after the signature was checked, so only brokers can fill the table of nonces.
        """
        now = self._now_ms()
        age = now - int(text) if text.isascii() and text.isdecimal() else AGE_MAX_MS + 1
        if abs(age) > AGE_MAX_MS:
            raise _refusal(
                f"the broker's clock and this NameServer's differ by {age} ms, at most "
                f"{AGE_MAX_MS} are taken; set the clocks"
            )
        with self._lock:
            while self._taken and now - next(iter(self._taken.values())) > 2 * AGE_MAX_MS:
                del self._taken[next(iter(self._taken))]
            if nonce in self._taken:
                raise _refusal("the request was taken before")
            self._taken[nonce] = now


def _refusal(why: str) -> Refused:
    return Refused(ResponseCode.NO_PERMISSION, f"registration refused: {why}", {})


def _signature(secret: str, code: int, fields: Mapping[str, str], body: bytes) -> str:
    mac = hmac.new(secret.encode(), f"{code}".encode(), "sha256")
    for name in sorted(fields):
        if name != SIGNATURE:
            for part in (name.encode(), fields[name].encode()):
                mac.update(len(part).to_bytes(4, "big") + part)
    mac.update(b"\xff\xff\xff\xff" + body)
    return mac.hexdigest()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
