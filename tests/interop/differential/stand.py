"""A NameServer and a broker of one kind, and the script's connections to them."""

from __future__ import annotations

import itertools
import json
import re
import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Literal

from mqcommon.wire.codes import RequestCode, ResponseCode
from mqcommon.wire.frame import Frame, encode
from mqserver.embedded.raw_client import Probe
from tests.acl.signing import home_with, signature
from tests.interop.differential.accounts import ACCOUNTS, ADMIN
from tests.interop.differential.case import Case
from tests.interop.differential.masking import Outcome, outcome_of, told_of
from tests.interop.java_servers import JavaBroker, JavaNamesrv
from tests.interop.our_servers import OurBroker, OurNamesrv
from tests.waiting import answer_of

Kind = Literal["java", "native", "python"]
SETTINGS = {
    "mappedFileSizeCommitLog": 1 << 20,
    "mappedFileSizeConsumeQueue": 6000,
    "maxHashSlotNum": 100,
    "maxIndexNum": 400,
    "maxMessageSize": 65536,
    # Nothing happens behind the script's back: no check of transactions, few registrations,
    # nothing refused because the machine was busy.
    "brokerFastFailureEnable": "false",
    "transactionCheckInterval": 600_000,
    "transactionTimeOut": 600_000,
}
GUARDED = {
    "aclEnable": "true",
    # The script answers a check before the next one, on a busy machine too.
    "transactionCheckInterval": 2500,
    "transactionTimeOut": 1500,
    "transactionCheckMax": 2,
}
NOBODY = "127.0.0.1:9"
ANSWER_SECONDS = 60.0
SILENCE_SECONDS = 0.25
STORING = {10, 310, 320, 324, 325, 36, 37, 11}
"""Codes that may add to the log: the broker stores a notice for pulls from beyond a queue's end."""
SETTLED = Case("settled", RequestCode.GET_BROKER_RUNTIME_INFO, {}, connection="settled")
_REFERENCE = re.compile(rb"\$\{(\w+)\.(\w+)\}")


class Line(Probe):
    """A connection with a timeout per wait; it keeps unexpected frames for later waits."""

    def first(self, wanted: Callable[[Frame], bool], seconds: float) -> Frame | None:
        """The first frame of this kind that came or comes; None when none does."""
        deadline = time.monotonic() + seconds
        for frame in self.pushed:
            if wanted(frame):
                self.pushed.remove(frame)
                return frame
        try:
            while True:
                self._socket.settimeout(max(0.01, deadline - time.monotonic()))
                frame = self.read()
                if wanted(frame):
                    return frame
                self.pushed.append(frame)
        except TimeoutError:
            return None

    def end(self) -> None:
        """Nothing more will be sent."""
        self._socket.shutdown(socket.SHUT_WR)


class Stand:
    """Running servers. kind: "java", or the data plane of ours.

    guarded: a broker alone that wants signatures and asks about half messages every second.
    """

    def __init__(self, home: Path, kind: Kind, guarded: bool = False) -> None:
        self._home, self._kind, self._guarded = home, kind, guarded
        self._numbers = itertools.count(1)
        self._kept: dict[str, Frame] = {}
        self._namesrv: JavaNamesrv | OurNamesrv | None = None
        try:
            if not guarded:
                (home / "namesrv").mkdir(parents=True)
                make = JavaNamesrv if kind == "java" else OurNamesrv
                self._namesrv = make(home / "namesrv")
            self._broker = self._broker_of(guarded)
        except BaseException:
            if self._namesrv:
                self._namesrv.process.kill()
            raise
        self._addresses = {
            "namesrv": self._namesrv.address if self._namesrv else NOBODY,
            "broker": self._broker.address,
            "vip": f"127.0.0.1:{self._broker.port - 2}",
        }

    def _broker_of(self, guarded: bool) -> JavaBroker | OurBroker:
        home = self._home / "broker"
        home.mkdir(parents=True)
        settings: dict[str, object] = {**SETTINGS}
        if guarded:
            settings |= {**GUARDED, "rocketmqHome": home_with(home, ACCOUNTS)}
        namesrv = self._namesrv.address if self._namesrv else NOBODY
        if self._kind == "java":
            return JavaBroker(home, namesrv, settings=settings)
        return OurBroker(home, namesrv, settings={**settings, "dataPlane": self._kind})

    def play(self, cases: Iterable[Case]) -> dict[str, Outcome]:
        """The outcome of each request, by the case's name; sent in order on their connections."""
        lines: dict[tuple[str, str], Line] = {}
        found: dict[str, Outcome] = {}
        try:
            for case in cases:
                found[case.name] = self._ask(case, lines)
                if case.code in STORING and case.server != "namesrv":
                    self._settle(lines)
            return found
        finally:
            for line in lines.values():
                line.close()

    def _ask(self, case: Case, lines: dict[tuple[str, str], Line]) -> Outcome:
        deadline = time.monotonic() + ANSWER_SECONDS
        while True:
            try:
                reply, told = self._once(case, lines)
            except ConnectionError:
                lines.pop((case.server, case.connection)).close()
                return Outcome("closed")
            if reply is None:
                return Outcome("silence", told=told)
            waits = any(reply.fields.get(key) != value for key, value in case.until.items())
            if not waits or time.monotonic() > deadline:
                break
            time.sleep(0.02)
        if case.keep:
            self._kept[case.keep] = reply
        return replace(outcome_of(case, reply), told=told)

    def _settle(self, lines: dict[tuple[str, str], Line]) -> None:
        """Wait until the broker's queues hold its whole log: acknowledged messages may not be in
        their queues yet.

        Java refuses to tell until it has run for as long as its first sample of statistics takes.
        """
        ask = replace(SETTLED, account=ADMIN if self._guarded else None)

        def is_settled(reply: Frame | None) -> bool:
            told = reply is not None and reply.code == ResponseCode.SUCCESS
            return told and json.loads(reply.body)["table"]["dispatchBehindBytes"] == "0"

        answer_of(lambda: self._once(ask, lines)[0], is_settled, ANSWER_SECONDS)

    def _once(self, case: Case, lines: dict[tuple[str, str], Line]) -> tuple[Frame | None, object]:
        line, number, told = self._line(case, case.connection, lines), next(self._numbers), None
        line.write(case.raw or encode(self._frame(case, number)))
        if case.ends:
            line.end()
        if case.hears:
            told = self._hear(case, self._line(case, case.hears[0], lines))

        def wanted(frame: Frame) -> bool:
            return frame.is_response and (bool(case.raw) or frame.opaque == number)

        return line.first(wanted, SILENCE_SECONDS if case.silent else ANSWER_SECONDS), told

    def _hear(self, case: Case, line: Line) -> object:
        """The broker's request to a client; answer it if the case says how."""
        assert case.hears
        code = case.hears[1]
        request = line.first(
            lambda frame: not frame.is_response and frame.code == code,
            SILENCE_SECONDS if case.deaf else ANSWER_SECONDS,
        )
        if request and case.keep:
            self._kept[f"{case.keep}_told"] = request
        if request and case.answer:
            given = case.answer
            line.write(encode(request.reply(given.code, given.remark, given.fields, given.body)))
        return told_of(request)

    def _line(self, case: Case, name: str, lines: dict[tuple[str, str], Line]) -> Line:
        key = (case.server, name)
        if key not in lines:
            lines[key] = Line(self._addresses[case.server])
        return lines[key]

    def _frame(self, case: Case, number: int) -> Frame:
        filled = {key: self._filled(text.encode()) for key, text in (case.fields or {}).items()}
        fields = {key: text.decode() for key, text in filled.items()}
        body = self._filled(case.body)
        if case.account:
            fields["AccessKey"] = case.account[0]
            fields["Signature"] = signature(fields, body, case.account[1])
        return Frame(
            case.code,
            fields,
            body,
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
        """Stop all, the broker first."""
        try:
            self._broker.discard()
        finally:
            if self._namesrv:
                self._namesrv.discard()
