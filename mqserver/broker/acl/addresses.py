"""Converts RocketMQ's address patterns of white lists to ranges that the data plane compares.

A pattern (`RemoteAddressStrategyFactory`) is one of these, for IPv4 and for IPv6:

- `*`
- an address, or a list of addresses separated by commas
- an address with braces in the last part: `10.0.0.{1,2}`
- an address with `a-b` or `*` in any part after the first

IPv6 patterns have hexadecimal numbers and may have `::`. Unlike RocketMQ, the broker also compares
the parts after a range: `192.168.1-5.7` does not let `192.168.3.99` in.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

from mqserver.broker.acl.errors import AclError

Part = tuple[int, int]
Pattern = tuple[Part, ...]
"""The lowest and highest value of each part of an address; an empty tuple matches any address."""

_ANY = frozenset({"*", "*.*.*.*", "*:*:*:*:*:*:*:*"})
LIST_MAX = 1_000
"""Most addresses that one pattern may list."""


def matches(pattern: Pattern, address: IPv4Address | IPv6Address) -> bool:
    """Whether an address is in every range of a pattern."""
    size = 1 if address.version == 4 else 2
    packed = address.packed
    parts = [int.from_bytes(packed[at : at + size]) for at in range(0, len(packed), size)]
    if not pattern:
        return True
    return len(pattern) == len(parts) and all(
        low <= part <= high for (low, high), part in zip(pattern, parts, strict=True)
    )


def patterns(text: str | None) -> list[Pattern]:
    """Read one entry of a white list; a blank entry matches no address.

    Raises AclError in RocketMQ's words if the text is not a pattern.
    """
    text = (text or "").strip()
    if not text:
        return []
    if text in _ANY:
        return [()]
    listed = _listed(text)
    if len(listed) > LIST_MAX:
        raise AclError(f"a white list entry has {len(listed)} addresses; the limit is {LIST_MAX}")
    if len(listed) > 1 or text.endswith("}"):
        return [_exact(address) for address in listed]
    return [_ranges(text) if "*" in text or "-" in text else _exact(text)]


def _listed(text: str) -> list[str]:
    """The addresses of a comma list, or of braces in the last part."""
    if not text.endswith("}"):
        return [part.strip() for part in text.split(",") if part.strip()]
    head, brace, tail = text.partition("{")
    if not brace or not head.endswith((".", ":")):
        raise _bad(text)
    return [head + last.strip() for last in tail[:-1].split(",") if last.strip()]


def _exact(text: str) -> Pattern:
    try:
        address = ip_address(text)
    except ValueError:
        raise _bad(text) from None
    if isinstance(address, IPv4Address):
        return tuple((part, part) for part in address.packed)
    if address.ipv4_mapped is not None:
        return _exact(str(address.ipv4_mapped))
    return tuple((int(part, 16), int(part, 16)) for part in address.exploded.split(":"))


def _ranges(text: str) -> Pattern:
    if ":" in text:
        parts, highest, base = _filled(text), 0xFFFF, 16
    else:
        parts, highest, base = text.split("."), 0xFF, 10
        if len(parts) != 4:
            raise _bad(text)
    read = [_part(part.strip(), highest, base, text) for part in parts]
    if read[0][0] != read[0][1]:
        raise _bad(text)  # RocketMQ accepts no range in the first part
    return tuple(read)


def _filled(text: str) -> list[str]:
    """The eight parts of an IPv6 pattern."""
    head, gap, tail = text.partition("::")
    before = head.split(":") if head else []
    after = tail.split(":") if tail else []
    missing = 8 - len(before) - len(after)
    if (missing < 1) if gap else (missing != 0):
        raise _bad(text)
    return [*before, *["0"] * missing, *after]


def _part(text: str, highest: int, base: int, whole: str) -> Part:
    if text == "*":
        return 0, highest
    low, dash, high = text.partition("-")
    try:
        ends = int(low, base), int(high if dash else low, base)
    except ValueError:
        raise _bad(whole) from None
    if not 0 <= ends[0] <= ends[1] <= highest:
        raise _bad(whole)
    return ends


def _bad(text: str) -> AclError:
    return AclError(f"Netaddress examine Exception netaddress is {text[:255]}")
