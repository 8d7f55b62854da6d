"""The form of `-f`: a message as text, with the letters that kcat uses and a few of RocketMQ's."""

from __future__ import annotations

import re
from collections.abc import Callable

from mqcommon.message import ReceivedMessage

__all__ = ["LETTERS", "compile_format"]

Part = Callable[[ReceivedMessage], bytes]


def _number(number: int | None) -> bytes:
    return b"%d" % (-1 if number is None else number)


def _text(text: str | None) -> bytes:
    return (text or "").encode()


_PARTS: dict[str, tuple[str, Part]] = {
    "t": ("topic", lambda m: _text(m.topic)),
    "p": ("queue id", lambda m: _number(m.queue_id)),
    "o": ("queue offset", lambda m: _number(m.queue_offset)),
    "k": ("keys", lambda m: _text(m.properties.get("KEYS"))),
    "K": ("bytes of the keys", lambda m: _number(len(_text(m.properties.get("KEYS"))))),
    "s": ("body", lambda m: m.body),
    "S": ("bytes of the body", lambda m: _number(len(m.body))),
    "T": ("store time, ms", lambda m: _number(m.store_timestamp_ms)),
    "h": ("properties", lambda m: _text(",".join(f"{k}={v}" for k, v in m.properties.items()))),
    "g": ("tag", lambda m: _text(m.tags)),
    "i": ("message id", lambda m: _text(m.msg_id)),
    "b": ("broker name", lambda m: _text(m.broker_name)),
    "r": ("times delivered before", lambda m: _number(m.reconsume_times)),
}
LETTERS = ", ".join(f"%{letter} {meaning}" for letter, (meaning, _) in _PARTS.items())
"""The meaning of each letter."""
_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
_TOKEN = re.compile(r"%(.?)|\\x([0-9a-fA-F]{2})|\\(.?)|([^%\\]+)", re.DOTALL)


def compile_format(text: str) -> Part:
    r"""A function that writes a message in a form such as '%t %p %o %k %s\n'.

    Raises ValueError that names the letters. Writing raises DecodeError for a damaged body.
    """
    parts: list[bytes | Part] = []
    for letter, byte, escape, plain in _TOKEN.findall(text):
        if plain:
            parts.append(plain.encode())
        elif byte:
            parts.append(bytes.fromhex(byte))
        elif escape in _ESCAPES:
            parts.append(_ESCAPES[escape])
        elif letter == "%":
            parts.append(b"%")
        elif letter in _PARTS:
            parts.append(_PARTS[letter][1])
        else:
            wrong = f"%{letter}" if not escape else f"\\{escape}"
            raise ValueError(f"{wrong!r} means nothing in a format; give {LETTERS}, %%, \\n, \\t")
    return lambda message: b"".join(
        part if isinstance(part, bytes) else part(message) for part in parts
    )
