"""The addresses of this machine: the outgoing address, and whether an address is its own.

Both use a connected datagram socket; connecting one sends no packet.
"""

from __future__ import annotations

import fcntl
import ipaddress
import socket

_SIOCGIFADDR = 0x8915
_DOCUMENTATION = "192.0.2.1"
"""Documentation address of RFC 5737: no host has it, so the default route is used for it."""


def outgoing_address() -> str | None:
    """The IPv4 address of the interface with the default route; None without a network."""
    return _source_towards(_DOCUMENTATION)


def own_address() -> str:
    """The address that clients use in their ids: `outgoing_address`, or else loopback."""
    return outgoing_address() or "127.0.0.1"


def is_own_address(host: str) -> bool:
    """Whether an IP address belongs to this machine now.

    The kernel chooses an address as its own source only if the machine has it. This covers all
    interfaces, for IPv4 and IPv6.
    """
    source = _source_towards(host)
    return source is not None and source.partition("%")[0] == host.partition("%")[0]


def interface_addresses() -> list[str]:
    """The IPv4 addresses of this machine's interfaces, without loopback."""
    found: list[str] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            try:
                row = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, name.encode()[:15].ljust(40, b"\0"))
            except OSError:
                continue
            address = socket.inet_ntoa(row[20:24])
            if not ipaddress.ip_address(address).is_loopback:
                found.append(address)
    return found


def _source_towards(host: str) -> str | None:
    """The source address of datagrams to an IP address; None if there is no route."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, 9))
        except OSError:
            return None
        return str(probe.getsockname()[0])
