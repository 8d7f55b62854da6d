"""Bytes that are no frame, frames that are no request: to the broker and to the NameServer."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import replace

from tests.interop.differential.case import Case, Server

#: A request that both servers answer at once, whatever else they hold.
CODES: Mapping[Server, int] = {"broker": 999, "namesrv": 102}
FIELDS = {"namespace": "NoSpace", "key": "k"}


def framed(header: bytes, body: bytes = b"", serialize: int = 0, **words: int) -> bytes:
    """A frame; total, header_length: lengths that are claimed instead of the true ones."""
    total = words.get("total", 4 + len(header) + len(body))
    return struct.pack(">iI", total, serialize << 24 | words.get("header_length", len(header))) + (
        header + body
    )


def header(number: int, **changes: object) -> bytes:
    """A good JSON header with some members changed; None leaves one out."""
    values = {"code": number, "extFields": FIELDS, "flag": 0, "language": "JAVA", "opaque": 7,
              "serializeTypeCurrentRPC": "JSON", "version": 407, **changes}  # fmt: skip
    return json.dumps({key: value for key, value in values.items() if value is not None}).encode()


def binary(code: int, remark: bytes = b"", ext: bytes | None = None, **lengths: int) -> bytes:
    """A good binary header; remark_length, ext_length: false lengths to claim in it."""
    pairs = FIELDS.items() if ext is None else ()
    ext = b"".join(entry(key.encode(), value.encode()) for key, value in pairs) + (ext or b"")
    return (
        struct.pack(">hbhii", code, 0, 407, 7, 0)
        + struct.pack(">i", lengths.get("remark_length", len(remark))) + remark
        + struct.pack(">i", lengths.get("ext_length", len(ext))) + ext
    )  # fmt: skip


def entry(key: bytes, value: bytes, key_length: int | None = None, length: int = -2) -> bytes:
    """One extension field of a binary header."""
    size = len(key) if key_length is None else key_length
    return struct.pack(">h", size) + key + struct.pack(
        ">i", len(value) if length == -2 else length
    ) + value  # fmt: skip


def broken(code: int) -> dict[str, bytes]:
    """Invalid bytes: a server cannot find the next frame and must close the connection."""
    good = header(code)
    return {
        "length 0": framed(good, total=0),
        "length 3": framed(good, total=3),
        "length -1": framed(good, total=-1),
        "length of 16 MiB": framed(good, total=1 << 24),
        "length int max": framed(good, total=2**31 - 1),
        "length too small": framed(good, total=len(good) - 20) + b"\0" * 8,
        "length 4, nothing more": struct.pack(">iI", 4, 0),
        "header longer than the frame": framed(good, header_length=len(good) + 1),
        "header of 16 MiB less one": framed(good, header_length=(1 << 24) - 1),
        "header cut": framed(good, header_length=len(good) - 1),
        "serialize type 2": framed(good, serialize=2),
        "serialize type 255": framed(good, serialize=255),
        "a web request": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        "garbage header": framed(b"}{garbage!"),
        "header no UTF-8": framed(b"\xff\xfe\xfd\xfc"),
        "header a word": framed(b'"code"'),
        "header a list": framed(b"[999]"),
        "header deep": framed(b"[" * 400),
        "header deep in a field": framed(b'{"extFields":' + b'{"a":' * 400),
        "code a word": framed(header(code, code="abc")),
        "opaque a word": framed(header(code, opaque="abc")),
        "flag a word": framed(header(code, flag="abc")),
        "version a word": framed(header(code, version="abc")),
        "fields a list": framed(header(code, extFields=[1])),
        "fields a word": framed(header(code, extFields="abc")),
        "binary, empty": framed(b"", serialize=1),
        "binary, 20 bytes": framed(binary(code)[:20], serialize=1),
        "binary, JSON": framed(good, serialize=1),
        "binary, remark beyond": framed(binary(code, remark_length=99), serialize=1),
        "binary, fields beyond": framed(binary(code, ext_length=9999), serialize=1),
        "binary, key beyond": framed(binary(code, ext=entry(b"k", b"v", 99)), serialize=1),
        "binary, value beyond": framed(binary(code, ext=entry(b"k", b"v", None, 99)), serialize=1),
        "JSON, binary": framed(binary(code)),
    }


def odd(code: int) -> dict[str, bytes]:
    """Frames that are unusual, and answered."""
    pair = entry(b"namespace", b"a") + entry(b"namespace", b"b") + entry(b"key", b"")
    return {
        "good": framed(header(code)),
        "good in binary": framed(binary(code), serialize=1),
        "code as text": framed(header(code, code=str(code))),
        "opaque as text": framed(header(code, opaque="7")),
        "no flag": framed(header(code, flag=None)),
        "no version": framed(header(code, version=None)),
        "no language": framed(header(code, language=None)),
        "language unknown": framed(header(code, language="COBOL")),
        "language a number": framed(header(code, language=9)),
        "fields none": framed(header(code, extFields=None)),
        "values that are no text": framed(
            header(code, extFields={"namespace": 1, "key": True, "x": None, "y": 1.5, "z": [1]})
        ),
        "unknown members": framed(header(code, noSuch={"a": [1, {"b": None}]})),
        "blanks around": framed(b" \n\t" + header(code).replace(b",", b" , ") + b" "),
        "remark in a request": framed(header(code, remark="hello")),
        "other serialisation claimed": framed(header(code, serializeTypeCurrentRPC="ROCKETMQ")),
        "a body nobody reads": framed(header(code), b"x" * 1000),
        "version huge": framed(header(code, version=2**31 - 1)),
        "version negative": framed(header(code, version=-1)),
        "opaque negative": framed(header(code, opaque=-7)),
        "binary, a key twice": framed(binary(code, ext=pair), serialize=1),
        "binary, a remark": framed(binary(code, b"hello"), serialize=1),
        "two at once": framed(header(code)) * 2,
    }


def unfinished(code: int) -> dict[str, bytes]:
    """Incomplete frames of a client that disconnects: the server sends no answer."""
    good = framed(header(code), b"body")
    return {
        "half a length": good[:2],
        "a length": good[:4],
        "half a header": good[:40],
        "all but a byte": good[:-1],
    }


def quiet(code: int) -> dict[str, bytes]:
    """Frames that are never answered."""
    return {
        "one-way": framed(header(code, flag=2)),
        "one-way in binary": framed(struct.pack(">hbhiiii", code, 0, 407, 7, 2, 0, 0), serialize=1),
        "a response": framed(header(code, flag=1)),
        "a response, one-way": framed(header(code, flag=3)),
        "half a frame, no end": framed(header(code))[:40],
    }


def of(server: Server) -> Iterator[Case]:
    """All of them, each on a connection of its own."""
    code = CODES[server]
    for kind in (broken, odd, unfinished, quiet):
        for name, data in kind(code).items():
            at = f"{server}, {name}"
            case = Case(at, code, raw=data, server=server, connection=at)
            yield replace(case, ends=kind is unfinished, silent=kind is quiet)


CASES = [*of("broker"), *of("namesrv")]
