"""Chooses the broker address that clients are given, and warns of addresses they cannot reach."""

from __future__ import annotations

import ipaddress
import os
import socket

from msgspec import Struct

from mqcommon.own_address import interface_addresses, outgoing_address

ANY = ("0.0.0.0", "::", "")
_CONTAINER_MARKS = ("/.dockerenv", "/run/.containerenv")


ENVIRONMENT = "MQSTACK_ADVERTISE"
"""The environment variable with the address that clients are given, as host or host:port."""


def advertised_keys(address: str | None) -> dict[str, str]:
    """The settings for an address that clients are given, "host" or "host:port"; None: none."""
    if not address:
        return {}
    host, _, port = address.rpartition(":")
    if host and port.isdigit():
        return {"brokerIP1": host, "advertisedPort": port}
    return {"brokerIP1": address}


class Advertised(Struct, frozen=True):
    """The broker host that clients are given, and its IP address, which message ids need.

    origin: "brokerIP1", "bindAddress" or "the interface". warnings: for the operator.
    """

    host: str
    ip: str
    origin: str
    warnings: tuple[str, ...]


def advertised(broker_ip1: str, bind_address: str) -> Advertised:
    """Choose the address; raises OSError when brokerIP1 is a name that does not resolve."""
    if broker_ip1:
        ip = _resolved(broker_ip1)
        return Advertised(broker_ip1, ip, "brokerIP1", tuple(_warnings(ip, bind_address, ())))
    if bind_address not in ANY:
        ip = _resolved(bind_address)
        return Advertised(ip, ip, "bindAddress", ())
    candidates = interface_addresses()
    ip = outgoing_address() or (candidates[0] if candidates else "127.0.0.1")
    warnings = tuple(_warnings(ip, bind_address, candidates))
    return Advertised(ip, ip, "the interface", warnings)


def _resolved(host: str) -> str:
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return socket.gethostbyname(host)


def _warnings(ip: str, bind_address: str, candidates: tuple[str, ...] | list[str]) -> list[str]:
    address = ipaddress.ip_address(ip)
    set_it = f"set brokerIP1 or {ENVIRONMENT} to the address that clients can reach"
    warnings: list[str] = []
    if address.is_loopback and bind_address in ANY:
        warnings.append(
            f"clients on other machines will be told {ip}, their own loopback; {set_it}"
        )
    elif address.is_loopback:
        return warnings  # the broker listens on loopback only, so its clients are on this machine
    elif address.is_private and any(map(os.path.exists, _CONTAINER_MARKS)):
        warnings.append(f"{ip} is the private address of a container; {set_it}")
    if len(candidates) > 1:
        others = ", ".join(other for other in candidates if other != ip)
        warnings.append(f"{ip} is one of several addresses (also {others}); {set_it}")
    return warnings
