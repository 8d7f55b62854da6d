"""One remoting frame: its layout, encode and decode, in both header serialisations. No IO.

    0        4       5            8                 8+header         length+4
    +--------+-------+------------+-----------------+----------------+
    | length | type  | header len | header          | body           |
    | int32  | uint8 | uint24     | JSON or binary  | opaque bytes   |
    +--------+-------+------------+-----------------+----------------+

`length` counts the bytes after itself. Binary header (type 1): code int16, language int8,
version int16, opaque int32, flag int32, remark (int32 length, UTF-8), extension fields (int32
length of all, then int16 key length, key, int32 value length, value). All big-endian.
Rules: RocketMQ 4.9 `RemotingCommand`, `RocketMQSerializable`.
"""

import json
import json.encoder
import struct
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Self

from mqcommon.wire.codes import VERSION_4_9_7, FrameFlag, LanguageCode, SerializeType
from mqcommon.wire.headers.base import Header

FRAME_BYTES_MAX = 16 * 1024 * 1024
"""Largest frame, length word included, that RocketMQ accepts."""

_PREFIX = struct.Struct(">iI")
_BINARY = struct.Struct(">hbhii")
_INT32 = struct.Struct(">i")
_KEY_LENGTH = struct.Struct(">h")
_LANGUAGE_NAMES = {int(code): code.name for code in LanguageCode}
_LANGUAGE_CODES = {code.name: int(code) for code in LanguageCode}
_decoder: Any = json.JSONDecoder(strict=False)
_scan: Callable[[str, int], tuple[Any, int]] = _decoder.scan_once  # without what decode() adds


def _json_writer() -> Callable[[Any], str]:
    """JSONEncoder.encode, without a new C encoder for each call if possible."""
    make: Any = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
    quote = json.encoder.encode_basestring
    encoder = make(None, None, quote, None, ":", ",", False, False, True)
    return lambda value: "".join(encoder(value, 0))


_write = _json_writer()
_UNREADABLE = (
    ValueError, OverflowError, StopIteration, AttributeError, TypeError, RecursionError
)  # fmt: skip
"""Errors of Python for text that is no JSON, or no header (Infinity as a code, for example)."""


class FrameError(ValueError):
    """Bytes are not a frame, or a frame cannot be written. The connection must be closed."""


@dataclass(slots=True)
class Frame:
    """A request or a response.

    code: RequestCode or ResponseCode. fields: the header's values, all strings, in wire order.
    opaque: number that pairs a response with its request. flag: bits of FrameFlag.
    language: LanguageCode ordinal, None if the peer's name is unknown. version: ordinal in
    RocketMQ's version enum. serialize: SerializeType of the header; a reply echoes its request's.
    has_fields: the JSON header holds "extFields" even if there are none.
    """

    code: int
    fields: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    opaque: int = 0
    flag: int = 0
    remark: str | None = None
    language: int | None = int(LanguageCode.PYTHON)
    version: int = VERSION_4_9_7
    serialize: int = int(SerializeType.JSON)
    has_fields: bool = False

    @property
    def is_response(self) -> bool:
        """True for the answer to a request."""
        return bool(self.flag & FrameFlag.RESPONSE)

    @property
    def is_oneway(self) -> bool:
        """True for a request that must not be answered."""
        return bool(self.flag & FrameFlag.ONEWAY)

    def reply(
        self,
        code: int,
        remark: str | None = None,
        fields: dict[str, str] | None = None,
        body: bytes = b"",
    ) -> Self:
        """Build the response to this request: its opaque and its serialisation are echoed.

        code: of ResponseCode, 0 for success. remark: text of an error. fields, body: the answer.
        """
        return replace(
            self,
            code=code,
            remark=remark,
            fields=fields or {},
            has_fields=fields is not None,
            body=body,
            flag=int(FrameFlag.RESPONSE),
            language=int(LanguageCode.PYTHON),
            version=VERSION_4_9_7,
        )


def request_frame(code: int, header: Header | None = None, body: bytes = b"") -> Frame:
    """A request of one code with the fields of a header."""
    return Frame(int(code), header.to_fields() if header else {}, body)


def encode(frame: Frame) -> bytes:
    """Write a frame, its length word first.

    Raises FrameError if the frame is over 16 MiB, or if the binary header cannot hold its code.
    """
    header = _json_header(frame) if frame.serialize == 0 else _binary_header(frame)
    total = 8 + len(header) + len(frame.body)
    if total > FRAME_BYTES_MAX:
        raise FrameError(f"frame of {total} bytes is over the limit of {FRAME_BYTES_MAX}")
    prefix = _PREFIX.pack(total - 4, frame.serialize << 24 | len(header))
    return b"".join((prefix, header, frame.body))


def decode(data: bytes) -> Frame:
    """Read exactly one frame, its length word included.

    Raises FrameError if a length does not fit, or if the header cannot be read.
    """
    if len(data) < 8:
        raise FrameError(f"frame of {len(data)} bytes is shorter than its 8-byte prefix")
    length, word = _PREFIX.unpack_from(data)
    header_end = 8 + (word & 0xFFFFFF)
    if length != len(data) - 4:
        raise FrameError(f"length word says {length} bytes, {len(data) - 4} follow")
    if header_end > len(data):
        raise FrameError(f"header of {header_end - 8} bytes does not fit a {length}-byte frame")
    serialize = word >> 24
    header, body = data[8:header_end], data[header_end:]
    if serialize == SerializeType.JSON:
        return _from_json(header, body)
    if serialize == SerializeType.ROCKETMQ:
        return _from_binary(header, body)
    raise FrameError(f"unknown serialize type {serialize}")


def _json_header(frame: Frame) -> bytes:
    """Write the keys in the order in which Java sorts them, without nulls."""
    fields = frame.fields
    ext = f'"extFields":{_write(fields)},' if fields or frame.has_fields else ""
    name = _LANGUAGE_NAMES.get(frame.language) if frame.language is not None else None
    language = f'"language":"{name}",' if name else ""
    remark = "" if frame.remark is None else f'"remark":{_write(frame.remark)},'
    return (
        f'{{"code":{frame.code:d},{ext}"flag":{frame.flag:d},{language}"opaque":{frame.opaque:d},'
        f'{remark}"serializeTypeCurrentRPC":"JSON","version":{frame.version:d}}}'
    ).encode()


def _binary_header(frame: Frame) -> bytes:
    language = LanguageCode.OTHER if frame.language is None else frame.language
    try:
        fixed = _BINARY.pack(frame.code, language, frame.version, frame.opaque, frame.flag)
    except struct.error as error:
        raise FrameError(f"frame of code {frame.code} has no binary header: {error}") from error
    remark = (frame.remark or "").encode()
    parts = [fixed, _INT32.pack(len(remark)), remark, b""]
    for key, value in frame.fields.items():
        key_bytes, value_bytes = key.encode(), value.encode()
        parts += (
            _KEY_LENGTH.pack(len(key_bytes)),
            key_bytes,
            _INT32.pack(len(value_bytes)),
            value_bytes,
        )
    parts[3] = _INT32.pack(sum(map(len, parts[4:])))
    return b"".join(parts)


def _from_json(header: bytes, body: bytes) -> Frame:
    try:
        values, _ = _scan(header.decode(), 0)
        get = values.get
        ext, language, remark = get("extFields"), get("language"), get("remark")
        return Frame(
            int(get("code", 0)),
            _strings(ext) if ext else {},
            body,
            int(get("opaque", 0)),
            int(get("flag", 0)),
            remark if isinstance(remark, str) else None,
            language if isinstance(language, int) else _LANGUAGE_CODES.get(language),
            int(get("version", 0)),
            has_fields=ext is not None,
        )
    except _UNREADABLE as error:
        raise FrameError(f"header is not RocketMQ's JSON: {error}") from error


def _strings(fields: dict[str, Any]) -> dict[str, str]:
    """Turn values that a client did not quote into strings, as Java does; nulls are absent."""
    try:
        "".join(fields.values())  # the quickest way to see that every value is a string
        return fields
    except TypeError:
        return {
            key: value if isinstance(value, str) else json.dumps(value)
            for key, value in fields.items()
            if value is not None
        }


def _from_binary(header: bytes, body: bytes) -> Frame:
    try:
        code, language, version, opaque, flag = _BINARY.unpack_from(header)
        remark, position = _take(header, _BINARY.size, _INT32, len(header))
        (ext_length,) = _INT32.unpack_from(header, position)
        position += 4
        end = position + ext_length
        if ext_length < 0 or end > len(header):
            raise FrameError(f"extension fields of {ext_length} bytes do not fit the header")
        fields = {}
        while position < end:
            key, position = _take(header, position, _KEY_LENGTH, end)
            fields[key], position = _take(header, position, _INT32, end)
    except (struct.error, UnicodeDecodeError) as error:
        raise FrameError(f"binary header is truncated or not UTF-8: {error}") from error
    serialize = int(SerializeType.ROCKETMQ)
    return Frame(
        code, fields, body, opaque, flag, remark or None, language, version, serialize, bool(fields)
    )


def _take(data: bytes, position: int, length: struct.Struct, end: int) -> tuple[str, int]:
    """Read one string after its length; returns it and the position after it."""
    (size,) = length.unpack_from(data, position)
    start = position + length.size
    if size < 0 or start + size > end:
        raise FrameError(f"string of {size} bytes at {position} does not fit the header")
    return data[start : start + size].decode(), start + size
