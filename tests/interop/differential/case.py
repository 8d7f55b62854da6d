"""One scripted request, and the ways in which a good one is spoiled."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from mqcommon.wire.codes import VERSION_4_9_7

Server = Literal["broker", "vip", "namesrv"]


@dataclass(frozen=True)
class Answer:
    """The script client's reply to a request from the broker."""

    code: int = 0
    remark: str | None = None
    fields: Mapping[str, str] | None = None
    body: bytes = b""


@dataclass(frozen=True)
class Case:
    """A request of the script; its name is unique in its table.

    fields: None leaves extFields out. Values and text bodies may hold `${KEPT.FIELD}`: a header
    field of an earlier reply that was kept, or its `phy`, the physical offset in its msgId.
    until: ask again, for some seconds, until the reply's fields hold these values; until_again:
    the values when the table is sent once more, without which such a case is left out there.
    silent: Java is known to stay silent; waits only briefly. raw: bytes sent instead of a frame;
    any response is theirs. ends: the client sends nothing after them, and says so.
    connection: requests of one name share a connection, which lives as long as the table.
    loose: fields of the reply, or "body", that depend on requests that one side refused earlier.
    account: access key and secret that sign the request.
    hears: a connection and a code: the broker's request with this code on this connection is
    compared too. deaf: Java is known to send nothing there. answer: the client's reply to it.
    """

    name: str
    code: int
    fields: Mapping[str, str] | None = None
    body: bytes = b""
    server: Server = "broker"
    serialize: int = 0
    version: int = VERSION_4_9_7
    language: int = 0
    keep: str = ""
    until: Mapping[str, str] = field(default_factory=dict)
    until_again: Mapping[str, str] = field(default_factory=dict)
    silent: bool = False
    raw: bytes = b""
    connection: str = "a"
    loose: tuple[str, ...] = ()
    ends: bool = False
    account: tuple[str, str] | None = None
    hears: tuple[str, int] | None = None
    deaf: bool = False
    answer: Answer | None = None

    def but(self, name: str, **changes: str | None) -> Case:
        """The same request with some header fields changed, or left out where None."""
        fields = {**(self.fields or {}), **changes}
        left = {key: value for key, value in fields.items() if value is not None}
        return replace(self, name=name, fields=left, keep="", until={}, until_again={})


def spoiled(good: Case, numbers: Iterable[str] = (), words: Iterable[str] = ()) -> Iterator[Case]:
    """The request with each header field missing, empty, of the wrong type, absurd; or with a
    field too many, or none at all.

    numbers, words: the fields to spoil, by what they hold. Nothing spoiled may change a state
    that a later case looks at.
    """
    name = good.name
    for key in (*numbers, *words):
        yield good.but(f"{name}; no {key}", **{key: None})
        yield good.but(f"{name}; empty {key}", **{key: ""})
    for key in numbers:
        for what, value in (("word", "abc"), ("huge", "9" * 20), ("fraction", "1.5")):
            yield good.but(f"{name}; {key} a {what}", **{key: value})
    for key in words:
        yield good.but(f"{name}; {key} climbs", **{key: "../../x"})
        yield good.but(f"{name}; {key} illegal", **{key: "a b/c:é"})
    yield good.but(f"{name}; a field too many", noSuchField="1")
    yield replace(good, name=f"{name}; no fields", fields=None, keep="", until={}, until_again={})


BAD_BODIES: Mapping[str, bytes] = {
    "empty": b"",
    "cut": b'{"clientId":',
    "null": b"null",
    "a number": b"7",
    "a list": b"[]",
    "no text": b"\xff\xfe\x00",
    "deep": b"[" * 300,
    "wrong members": b'{"clientID":7,"consumerDataSet":5,"mqSet":"x","table":[]}',
}


def with_bad_bodies(good: Case, bodies: Mapping[str, bytes] = BAD_BODIES) -> Iterator[Case]:
    """The request with each of the bodies."""
    for what, body in bodies.items():
        once = {"keep": "", "until": {}, "until_again": {}}
        yield replace(good, name=f"{good.name}; body {what}", body=body, **once)


def body_of(value: object) -> bytes:
    """A JSON body."""
    return json.dumps(value, separators=(",", ":")).encode()
