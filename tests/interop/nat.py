"""A network of three namespaces: servers inside, clients outside, a NAT with other ports between.

    inside 10.99.7.2 -- 10.99.7.1 gateway 198.18.7.1 -- 198.18.7.2 outside

There is no route from outside to 10.99.7.2: nft forwards the ports of 198.18.7.1.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Self

INSIDE, OUTSIDE = "10.99.7.2", "198.18.7.2"
GATEWAY_INSIDE, GATEWAY = "10.99.7.1", "198.18.7.1"
COMMAND_SECONDS_MAX = 60.0
_NAME = re.compile(r"mqnat(\d+)[igo]")


class NoNamespaces(Exception):
    """Network namespaces are not permitted here, or a tool is missing; the message says which."""


class CommandFailed(Exception):
    """A failed command and its output."""


class Nat:
    """The three namespaces, gone at the end of the `with` block, whatever happens.

    ports: outside port to inside port; if empty, the servers are unreachable from outside. Raises
    NoNamespaces; then nothing is left.
    """

    def __init__(self, ports: Mapping[int, int]) -> None:
        self._ports = ports
        self._made = ExitStack()
        tag = f"mqnat{os.getpid()}"
        self._inside, self._gateway, self._outside = (f"{tag}{place}" for place in "igo")

    def inside(self, *command: str) -> list[str]:
        """A command as it is run where the servers are."""
        return _within(self._inside, *command)

    def gateway(self, *command: str) -> list[str]:
        """A command as it is run on the gateway: a host of containers, which reaches both."""
        return _within(self._gateway, *command)

    def outside(self, *command: str) -> list[str]:
        """A command as it is run where the clients are."""
        return _within(self._outside, *command)

    def __enter__(self) -> Self:
        try:
            _check("ip", *(("nft",) if self._ports else ()))
            _sweep()
            self._build()
        except BaseException:
            self._made.close()
            raise
        return self

    def __exit__(self, *raised: object) -> None:
        self._made.close()

    def _build(self) -> None:
        try:
            self._allocate()
        except CommandFailed as reason:
            raise NoNamespaces(str(reason)) from None
        self._join(self._inside, INSIDE, GATEWAY_INSIDE, "in")
        self._join(self._outside, OUTSIDE, GATEWAY, "out")
        _run(*_within(self._inside, "ip", "route", "add", "default", "via", GATEWAY_INSIDE))
        _run(*_within(self._gateway, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"))
        for outer, inner in self._ports.items():
            rule = f"ip daddr {GATEWAY} tcp dport {outer} dnat to {INSIDE}:{inner}"
            self._nft(f"add rule ip mqnat in {rule}")

    def _allocate(self) -> None:
        """Create the namespaces and their rules, which the system may refuse."""
        for name in (self._inside, self._gateway, self._outside):
            _run("ip", "netns", "add", name)
            self._made.callback(_run, "ip", "netns", "del", name)
            _run(*_within(name, "ip", "link", "set", "lo", "up"))
        if self._ports:
            self._nft("add table ip mqnat")
            self._nft("add chain ip mqnat in { type nat hook prerouting priority -100 ; }")

    def _join(self, name: str, address: str, gateway: str, link: str) -> None:
        """A cable between a namespace and the gateway; it goes with either end."""
        ends = ("type", "veth", "peer", "name", "eth0", "netns", name)
        _run("ip", "-n", self._gateway, "link", "add", link, *ends)
        for space, end, own in ((self._gateway, link, gateway), (name, "eth0", address)):
            _run("ip", "-n", space, "address", "add", f"{own}/24", "dev", end)
            _run("ip", "-n", space, "link", "set", end, "up")

    def _nft(self, statement: str) -> None:
        _run(*_within(self._gateway, "nft", statement))


def _within(namespace: str, *command: str) -> list[str]:
    return ["ip", "netns", "exec", namespace, *command]


def _check(*tools: str) -> None:
    if os.geteuid() != 0:
        raise NoNamespaces("only root may make network namespaces")
    for tool in tools:
        if shutil.which(tool) is None:
            raise NoNamespaces(f"there is no {tool} here (Debian: iproute2, nftables)")


def _sweep() -> None:
    """Remove the namespaces of killed runs: the process that made them no longer exists."""
    for line in _run("ip", "netns", "list").splitlines():
        name = line.split()[0] if line.strip() else ""
        made = _NAME.fullmatch(name)
        if made is None or Path(f"/proc/{made[1]}").exists():
            continue
        for process in _run("ip", "netns", "pids", name).split():
            os.kill(int(process), signal.SIGKILL)
        _run("ip", "netns", "del", name)


def _run(*command: str) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=COMMAND_SECONDS_MAX
    )
    if done.returncode:
        raise CommandFailed(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout
