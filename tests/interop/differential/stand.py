"""A NameServer and a broker of one kind, and the script's connections to them."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from mqclient.wire.frame import Frame, encode
from mqserver.probe import Probe
from tests.interop.differential.case import Case
from tests.interop.differential.masking import Outcome, outcome_of
from tests.interop.java_servers import JavaBroker, JavaNamesrv
from tests.interop.our_servers import OurBroker, OurNamesrv

Kind = Literal["java", "native", "python"]
SETTINGS = {
    "mappedFileSizeCommitLog": 1 << 20,
    "mappedFileSizeConsumeQueue": 6000,
    "maxHashSlotNum": 100,
    "maxIndexNum": 400,
    "maxMessageSize": 65536,
    # Nothing happens behind the script's back: no check of transactions, few registrations.
    "transactionCheckInterval": 600_000,
    "transactionTimeOut": 600_000,
}
ANSWER_SECONDS = 5.0
SILENCE_SECONDS = 0.25
_REFERENCE = re.compile(rb"\$\{(\w+)\.(\w+)\}")


class Line(Probe):
    """A connection whose patience is set for each request."""

    def answer(self, data: bytes, opaque: int, seconds: float) -> Frame | None:
        """Send bytes and wait for the reply of this number; None when none came."""
        deadline = time.monotonic() + seconds
        self.write(data)
        try:
            while True:
                self._socket.settimeout(max(0.01, deadline - time.monotonic()))
                frame = self.read()
                if frame.is_response and frame.opaque == opaque:
                    return frame
                self.pushed.append(frame)
        except TimeoutError:
            return None


class Stand:
    """Two running servers. kind: "java", or the data plane of ours."""

    def __init__(self, home: Path, kind: Kind) -> None:
        (home / "namesrv").mkdir(parents=True)
        (home / "broker").mkdir()
        self._numbers = itertools.count(1)
        self._kept: dict[str, Frame] = {}
        self._namesrv: JavaNamesrv | OurNamesrv
        self._broker: JavaBroker | OurBroker
        if kind == "java":
            self._namesrv = JavaNamesrv(home / "namesrv")
        else:
            self._namesrv = OurNamesrv(home / "namesrv")
        namesrv = self._namesrv.address
        try:
            if kind == "java":
                self._broker = JavaBroker(home / "broker", namesrv, settings=SETTINGS)
            else:
                settings = {**SETTINGS, "dataPlane": kind}
                self._broker = OurBroker(home / "broker", namesrv, settings=settings)
        except BaseException:
            self._namesrv.process.kill()
            raise
        self._addresses = {
            "namesrv": namesrv,
            "broker": self._broker.address,
            "vip": f"127.0.0.1:{self._broker.port - 2}",
        }

    def play(self, cases: Iterable[Case]) -> dict[str, Outcome]:
        """What each request got, by the case's name; in order, on connections of their own."""
        lines: dict[tuple[str, str], Line] = {}
        try:
            return {case.name: self._ask(case, lines) for case in cases}
        finally:
            for line in lines.values():
                line.close()

    def _ask(self, case: Case, lines: dict[tuple[str, str], Line]) -> Outcome:
        deadline = time.monotonic() + ANSWER_SECONDS
        while True:
            try:
                reply = self._once(case, lines)
            except ConnectionError:
                lines.pop((case.server, case.connection)).close()
                return Outcome("closed")
            if reply is None:
                return Outcome("silence")
            waits = any(reply.fields.get(key) != value for key, value in case.until.items())
            if not waits or time.monotonic() > deadline:
                break
            time.sleep(0.02)
        if case.keep:
            self._kept[case.keep] = reply
        return outcome_of(case, reply)

    def _once(self, case: Case, lines: dict[tuple[str, str], Line]) -> Frame | None:
        key = (case.server, case.connection)
        if key not in lines:
            lines[key] = Line(self._addresses[case.server])
        number = next(self._numbers)
        data = case.raw or encode(self._frame(case, number))
        patience = SILENCE_SECONDS if case.silent else ANSWER_SECONDS
        return lines[key].answer(data, number, patience)

    def _frame(self, case: Case, number: int) -> Frame:
        fields = {key: self._filled(text.encode()) for key, text in (case.fields or {}).items()}
        return Frame(
            case.code,
            {key: text.decode() for key, text in fields.items()},
            self._filled(case.body),
            opaque=number,
            language=case.language,
            version=case.version,
            serialize=case.serialize,
            has_fields=case.fields is not None,
        )

    def _filled(self, text: bytes) -> bytes:
        """The text with its references replaced by what earlier replies said."""

        def value(match: re.Match[bytes]) -> bytes:
            reply = self._kept[match[1].decode()]
            if match[2] == b"phy":
                return str(int(reply.fields["msgId"][16:32], 16)).encode()
            return reply.fields[match[2].decode()].encode()

        return _REFERENCE.sub(value, text)

    def stop(self) -> None:
        """Stop both, the broker first."""
        try:
            self._broker.stop()
        finally:
            self._namesrv.stop()
