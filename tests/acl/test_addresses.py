"""RocketMQ's address patterns."""

from __future__ import annotations

from ipaddress import IPv4Address, ip_address

import pytest

from mqserver.broker.acl.addresses import LIST_MAX, patterns
from mqserver.broker.acl.errors import AclError


def matches(text: str | None, address: str) -> bool:
    """Whether the ranges of `text` match the address, decided by the native data plane."""
    parsed = ip_address(address)
    if isinstance(parsed, IPv4Address):
        parts = list(parsed.packed)
    else:
        parts = [int(part, 16) for part in parsed.exploded.split(":")]
    return any(
        not pattern
        or (
            len(pattern) == len(parts)
            and all(low <= part <= high for (low, high), part in zip(pattern, parts, strict=True))
        )
        for pattern in patterns(text)
    )


@pytest.mark.parametrize(
    ("text", "address", "wanted"),
    [
        (None, "127.0.0.1", False),
        ("", "127.0.0.1", False),
        ("  ", "127.0.0.1", False),
        ("*", "127.0.0.1", True),
        ("*", "::1", True),
        ("*.*.*.*", "10.0.0.1", True),
        ("*:*:*:*:*:*:*:*", "2001:db8::1", True),
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("10.0.0.1,10.0.0.3", "10.0.0.3", True),
        ("10.0.0.1, 10.0.0.3", "10.0.0.3", True),
        ("10.0.0.1,10.0.0.3", "10.0.0.2", False),
        ("10.0.0.{1,3}", "10.0.0.3", True),
        ("10.0.0.{1,3}", "10.0.0.2", False),
        ("10.0.0.{7}", "10.0.0.7", True),
        ("10.10.103.*", "10.10.103.255", True),
        ("10.10.103.*", "10.10.104.1", False),
        ("192.168.*.*", "192.168.7.8", True),
        ("192.168.*.*", "192.169.7.8", False),
        ("192.168.1-5.*", "192.168.5.200", True),
        ("192.168.1-5.*", "192.168.6.200", False),
        ("192.168.0.10-20", "192.168.0.15", True),
        ("192.168.0.10-20", "192.168.0.21", False),
        ("192.168.1-5.7", "192.168.3.7", True),
        ("192.168.1-5.7", "192.168.3.99", False),
        ("1.*.*.*", "1.2.3.4", True),
        ("2001:db8::1", "2001:0DB8:0:0:0:0:0:1", True),
        ("2001:db8::1,10.0.0.1", "10.0.0.1", True),
        ("2001:db8::{1,a}", "2001:db8::a", True),
        ("2001:db8::{1,a}", "2001:db8::b", False),
        ("2001:db8:0:0:0:0:0:*", "2001:db8::ffff", True),
        ("2001:db8::*", "2001:db8::9", True),
        ("2001:db8::*", "2001:db8::1:9", False),
        ("2001:db8:1-f:*:*:*:*:*", "2001:db8:a::1", True),
        ("2001:db8:1-f:*:*:*:*:*", "2001:db8:10::1", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
    ],
)
def test_patterns(text: str | None, address: str, wanted: bool) -> None:
    assert matches(text, address) is wanted


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        "10.0.0",
        "10.0.0.256",
        "10.0.0.0.1",
        "10.0.0.1-",
        "10.0.0.-5",
        "10.0.0.9-3",
        "10.0.0.0-256",
        "*.0.0.1",
        "1-5.0.0.1",
        "10.0.{1,2}.1",
        "10.0.0{1,2}",
        "10.0.0.1,nonsense",
        "10.0.0.*,10.0.1.*",
        "{1,2}",
        "2001:db8:*",
        "2001:db8::g-h",
        "2001:db8::0-10000",
        "*::1",
        "1:2:3:4:5:6:7:8:*",
        "10.0.0.0/8",
        "localhost",
    ],
)
def test_what_is_no_pattern(text: str) -> None:
    with pytest.raises(AclError, match="Netaddress examine Exception netaddress is"):
        patterns(text)


def test_a_list_has_an_end() -> None:
    text = ",".join(["10.0.0.1"] * (LIST_MAX + 1))
    with pytest.raises(AclError, match="the limit is 1000"):
        patterns(text)
