"""Plays a recorded session of clients to a broker of ours, frame by frame in its order.

Client frames are sent; broker frames are awaited and compared. Physical offsets and
the ids made of them are translated: ours are others. Frames to the NameServer are left out.
"""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mqcommon import fastjson
from mqcommon.wire.codes import RequestCode as Code
from mqcommon.wire.codes import ResponseCode
from mqcommon.wire.frame import Frame, decode, encode
from mqserver.embedded.raw_client import Probe
from mqstore import ReceivedMessage, decode_messages
from tests.common.wire.golden import FOLDER, Recorded, frames
from tests.waiting import until

PATIENCE = 60.0
HELD_MS = "200"
"""Instead of the 15 or 20 s for which the recorded clients let an empty pull be held."""
PHYSICAL = ("offset", "commitLogOffset")
#: Times in requests that are taken from the replay's clock, not from the recording.
CLOCKS = {10: ("bornTimestamp",), 12: ("endTimestamp",), 310: ("g",), 320: ("g",)}
#: Values that are a clock's, a port's, or a process's.
OWN = {
    "timestamp",
    "tranStateTableOffset",
    "offsetMsgId",
    "indexLastUpdateTimestamp",
    "indexLastUpdatePhyoffset",
}
MASKS = [
    (re.compile(r"\b[0-9A-F]{32}\b"), "ID"),
    (re.compile(r"127\.0\.0\.1:\d+"), "ADDRESS"),
    (re.compile(r"\b1[5-9]\d{11}\b"), "TIME"),
]
NOTHING: Mapping[int, Sequence[Frame]] = {}
KEY = re.compile("UNIQ_KEY\x01(\\w+)")


class Line(Probe):
    """A connection of the recorded client."""

    def first(self, wanted: Callable[[Frame], bool]) -> Frame:
        """The first frame of this kind that came or comes."""
        deadline = time.monotonic() + PATIENCE
        for frame in self.pushed:
            if wanted(frame):
                self.pushed.remove(frame)
                return frame
        while not wanted(frame := self._next(deadline)):
            self.pushed.append(frame)
        return frame

    def _next(self, deadline: float) -> Frame:
        self._socket.settimeout(max(0.01, deadline - time.monotonic()))
        return self.read()


@dataclass
class Replay:
    """One broker, and the offsets in its log that match offsets in the recorded log.

    settle: waits until every stored message is in its queues. physical: our log offset for each
    recorded one. half: the same for the queue of half messages.
    """

    address: str
    settle: Callable[[], None]
    physical: dict[int, int] = field(default_factory=dict)
    half: dict[int, int] = field(default_factory=dict)
    differences: list[str] = field(default_factory=list)
    compared: int = 0
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def play(self, session: str, before: Mapping[int, Sequence[Frame]] = NOTHING) -> None:
        """Play one session to its end. before: requests that connections, by number, had sent
        before it.
        """
        recorded = [f for f in frames(FOLDER / f"{session}.jsonl.gz") if is_brokers(f)]
        _Session(self, session, recorded).play(before)

    def ours(self, place: int) -> int:
        """Our physical offset of a recorded one."""
        return self.physical.get(place, place)

    def learn(self, theirs: str | None, ours: str | None) -> None:
        """Two ids of one message."""
        for one, other in zip((theirs or "").split(","), (ours or "").split(","), strict=False):
            if len(one) == len(other) == 32:
                self.physical[int(one[16:], 16)] = int(other[16:], 16)


def is_brokers(recorded: Recorded) -> bool:
    return recorded.line.get("server") == "broker"


class _Session:
    def __init__(self, replay: Replay, name: str, recorded: list[Recorded]) -> None:
        self._replay, self._name, self._recorded = replay, name, recorded
        self._lines: dict[int, Line] = {}
        self._asked: dict[tuple[int, int], tuple[Frame, int]] = {}
        self._told: dict[tuple[int, int], int] = {}
        self._codes = {
            (f.line["conn"], f.line["opaque"]): f.line["code"]
            for f in recorded
            if f.line.get("reply_to")
        }

    def play(self, before: Mapping[int, Sequence[Frame]]) -> None:
        prefill(self._replay.address, self._recorded)
        for number, requests in before.items():
            line = self._lines[number] = Line(self._replay.address, timeout=PATIENCE)
            for request in requests:
                assert line.call(request).code == 0
        self._replay.settle()
        try:
            for recorded in self._recorded:
                self._one(recorded)
        finally:
            for line in self._lines.values():
                line.close()

    def _one(self, recorded: Recorded) -> None:
        frame, number = decode(recorded.data), recorded.line["conn"]
        if number not in self._lines:
            self._lines[number] = Line(self._replay.address, timeout=PATIENCE)
        line, key = self._lines[number], (number, frame.opaque)
        if recorded.line["from"] == "client":
            if frame.is_response:
                frame.opaque = self._told[key]
            else:
                frame.opaque = next(self._replay._numbers)
                self._asked[key] = (frame, frame.opaque)
                self._translate(frame, self._codes.get(key, 0))
            if frame.code in (Code.PULL_MESSAGE, Code.QUERY_MESSAGE):
                self._await_stored(frame)
            line.write(encode(frame))
        elif frame.is_response and key not in self._asked:
            assert frame.code == ResponseCode.PULL_NOT_FOUND  # held since before the recording
        elif frame.is_response:
            request, opaque = self._asked.pop(key)
            reply = line.first(lambda f: f.is_response and f.opaque == opaque)
            # RocketMQ answered some pulls before the heartbeat that had come in ahead of them.
            if frame.code != ResponseCode.SUBSCRIPTION_NOT_LATEST:
                self._compare(request, frame, reply)
        else:
            told = line.first(lambda f: not f.is_response and is_same_call(f, frame))
            self._told[key] = told.opaque
            self._compare(told, frame, told)

    def _await_stored(self, frame: Frame) -> None:
        """We are faster than the recorded client: retries may not be there yet."""
        self._replay.settle()
        if is_retry(frame):
            self._retries(frame, int(frame.fields["queueOffset"]))

    def _retries(self, pull: Frame, end: int) -> list[ReceivedMessage]:
        """The messages that a pull of retries finds after they have arrived."""
        where = {key: pull.fields[key] for key in ("topic", "queueId")}
        now = {"sysFlag": "4", "subscription": "*", "commitOffset": "0", "subVersion": "0"}
        with Line(self._replay.address, timeout=PATIENCE) as probe:
            until(lambda: _end_of(probe, where) >= end, PATIENCE)
            self._replay.settle()
            reply = probe.call(Frame(Code.PULL_MESSAGE, {**pull.fields, **now}))
            return messages(pull, reply)

    def _translate(self, frame: Frame, answer: int) -> None:
        """Send extra requests that this replay needs; answer: the recorded reply's code."""
        fields = frame.fields
        for name in PHYSICAL:
            if name in fields and frame.code in (33, 36, 37):
                fields[name] = str(self._replay.ours(int(fields[name])))
        if (place := fields.get("tranStateTableOffset")) is not None:
            fields["tranStateTableOffset"] = str(self._replay.half.get(int(place), int(place)))
        for name in CLOCKS.get(frame.code, ()):
            if name in fields:
                fields[name] = str(int(time.time() * 1000) + 60_000 * (name == "endTimestamp"))
        if frame.code == Code.PULL_MESSAGE:
            if answer in (ResponseCode.PULL_NOT_FOUND, ResponseCode.SUBSCRIPTION_NOT_LATEST):
                fields["suspendTimeoutMillis"] = HELD_MS
            fields["subVersion"] = "0"  # of heartbeats the recording has only the first

    def _compare(self, request: Frame, theirs: Frame, ours: Frame) -> None:
        replay = self._replay
        for name in ("msgId", "offsetMsgId"):
            replay.learn(theirs.fields.get(name), ours.fields.get(name))
        names = [("commitLogOffset", replay.physical), ("tranStateTableOffset", replay.half)]
        names += [("queueOffset", replay.half)] if is_half(request) else []
        for name, known in names:
            if name in theirs.fields and name in ours.fields:
                known[int(theirs.fields[name])] = int(ours.fields[name])
        expected, found = shape(request, theirs), shape(request, ours)
        one_side, other_side = messages(request, theirs), messages(request, ours)
        if is_retry(request) and 0 < len(other_side) < len(one_side):
            other_side = self._retries(request, int(theirs.fields["nextBeginOffset"]))
        for one, other in zip(one_side, other_side, strict=False):
            replay.physical[one.commit_log_offset] = other.commit_log_offset
        replay.compared += 1
        if expected != found:
            parts = [k for k in expected if expected[k] != found[k]]
            shown = "".join(f"\n    {k}\n      {expected[k]}\n      {found[k]}" for k in parts)
            asked = {k: v for k, v in request.fields.items() if k not in ("i", "subscription")}
            replay.differences.append(f"{self._name}: {request.code} {asked}{shown}")


def prefill(address: str, recorded: list[Recorded]) -> None:
    """Store the messages that the session reads, or sends after, without sending them itself."""
    sent: set[str] = set()
    queues: dict[tuple[str, int], dict[int, ReceivedMessage]] = {}
    begins: dict[tuple[str, int], int] = {}
    asked: dict[tuple[int, int], Frame] = {}
    for line in recorded:
        frame, key = decode(line.data), (line.line["conn"], line.line["opaque"])
        if not frame.fields.get("b", "%").startswith("%"):  # a retry keeps its key
            sent.update(KEY.findall(frame.fields.get("i", "")))
        if not frame.is_response:
            asked[key] = frame
        elif (request := asked.get(key)) and not is_half(request):
            for message in messages(request, frame) if request.code == 11 else ():
                at = (message.topic, message.queue_id)
                queues.setdefault(at, {})[message.queue_offset] = message
            if "queueOffset" in frame.fields and (topic := request.fields.get("b")):
                at = (topic, int(frame.fields["queueId"]))
                queues.setdefault(at, {})
                begins.setdefault(at, int(frame.fields["queueOffset"]))
    with Line(address, timeout=PATIENCE) as probe:
        for (topic, queue_id), wanted in queues.items():
            strangers = [o for o, m in wanted.items() if m.properties["UNIQ_KEY"] not in sent]
            end = begins.get((topic, queue_id), max(strangers, default=-1) + 1)
            if not topic.startswith("%"):
                _fill(probe, topic, queue_id, wanted, end)


def _fill(
    line: Line, topic: str, queue_id: int, wanted: Mapping[int, ReceivedMessage], end: int
) -> None:
    where = {"topic": topic, "queueId": str(queue_id)}
    first = int(line.call(Frame(Code.GET_MAX_OFFSET, where)).fields["offset"])
    for at in range(first, end):
        message = wanted.get(at)
        letters = {
            "a": "before", "b": topic, "c": "TBW102", "d": "4", "e": str(queue_id),
            "h": str(message.flag if message else 0),
            "f": str(message.sys_flag if message else 0), "m": "false",
            "g": str(int(time.time() * 1000)),
            "i": message.stored_properties.decode() if message else "",
        }  # fmt: skip
        line.call(Frame(Code.SEND_MESSAGE_V2, letters, message.stored_body if message else b"-"))
        # A delayed message arrives a second later.
        assert until(lambda at=at: _end_of(line, where) > at, PATIENCE)


def _end_of(line: Probe, where: dict[str, str]) -> int:
    return int(line.call(Frame(Code.GET_MAX_OFFSET, where)).fields["offset"])


def is_half(request: Frame) -> bool:
    """Whether a request stores a half message, or is about one."""
    return request.code == Code.CHECK_TRANSACTION_STATE or request.fields.get("f") == "4"


def is_retry(request: Frame) -> bool:
    """Whether it pulls messages after a retry delay, whose timing differs between runs."""
    topic = request.fields.get("topic", "")
    return request.code == Code.PULL_MESSAGE and topic.startswith("%RETRY%")


def is_same_call(ours: Frame, theirs: Frame) -> bool:
    """Whether the broker asks the same of the client."""
    key = "transactionId"
    return ours.code == theirs.code and ours.fields.get(key) == theirs.fields.get(key)


def messages(request: Frame, reply: Frame) -> list[ReceivedMessage]:
    """The stored messages in a body."""
    stored = (11, 12, 33, 39)
    return decode_messages(reply.body) if request.code in stored and reply.body else []


def masked(text: str) -> str:
    for pattern, word in MASKS:
        text = pattern.sub(word, text)
    return text


def shape(request: Frame, reply: Frame) -> Mapping[str, object]:
    """What must be equal."""
    if is_retry(request):
        return {"code": reply.code, "remark": reply.remark, "has": bool(reply.body)}
    own = OWN | {"queueOffset"} if is_half(request) else OWN
    fields = {k: masked(v) for k, v in reply.fields.items() if k not in own and k not in PHYSICAL}
    body: object = [
        {
            "topic": m.topic, "queue": m.queue_id, "body": m.stored_body,
            "at": None if is_half(request) else m.queue_offset,
            "flag": m.flag, "sys": m.sys_flag, "times": m.reconsume_times,
            "properties": {k: masked(v) for k, v in sorted(m.properties.items())},
        }
        for m in messages(request, reply)
    ]  # fmt: skip
    if not body and reply.body:
        body = plain(reply.body)
    return {
        "code": reply.code, "remark": masked(reply.remark or ""), "fields": fields, "body": body,
        "flag": reply.flag,
    }  # fmt: skip


def plain(body: bytes) -> Any:
    """A JSON body, with lists whose order means nothing sorted."""
    try:
        value = fastjson.loads(body)
        if isinstance(value, dict) and "consumerIdList" in value:
            value["consumerIdList"].sort()
        text = json.dumps(value, sort_keys=True, default=str)
    except ValueError:
        text = body.decode("utf-8", "replace")
    return masked(text)
