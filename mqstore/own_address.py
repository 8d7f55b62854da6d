"""The addresses of this machine: which one it has towards the network, and which are its own.

A connected datagram socket answers both. Connecting one sends nothing.
"""

from __future__ import annotations

import ipaddress

_SIOCGIFADDR = 0x8915
_DOCUMENTATION = "192.0.2.1"
"""Documentation address of RFC 5737: the default route leads there, and no host has it."""


def outgoing_address() -> str | None:
    """The IPv4 address of the interface with the default route; None without a network."""
    return _source_towards(_DOCUMENTATION)


def own_address() -> str:
    """The address that clients name themselves by: `outgoing_address`, else loopback."""
    return outgoing_address() or "127.0.0.1"


def is_own_address(host: str) -> bool:
    """Whether an IP address belongs to this machine now.

    The system sends from an address to itself only if it is its own. That covers every interface
    at once, in both families.
    """
    source = _source_towards(host)
    return source is not None and source.partition("%")[0] == host.partition("%")[0]


def interface_addresses() -> list[str]:
    """The IPv4 addresses of this machine's interfaces, without loopback."""
    import socket

    try:
        import fcntl
    except ImportError:
        return []
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
    """The address that datagrams to an IP address would come from; None if there is no way."""
    import socket

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, 9))
        except OSError:
            return None
        return str(probe.getsockname()[0])
