"""Decides which peers may administer: this machine and the configured networks.

A registration never adds to them. A refusal has code 16 and names the key to set.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from mqcommon.own_address import is_own_address
from mqcommon.wire.codes import OUR_CODES, Access, ResponseCode
from mqcommon.wire.codes import RequestCode as Code
from mqserver.config.settings import networks
from mqserver.runtime.processor_api import Processor, Refused, Reply, Request

ADMIN_CODES = frozenset(
    {
        Code.UPDATE_AND_CREATE_TOPIC,
        Code.UPDATE_BROKER_CONFIG,
        Code.UPDATE_AND_CREATE_ACL_CONFIG,
        Code.DELETE_ACL_CONFIG,
        Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
        Code.GET_BROKER_CLUSTER_ACL_CONFIG,
        Code.PUT_KV_CONFIG,
        Code.DELETE_KV_CONFIG,
        Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
        Code.WIPE_WRITE_PERM_OF_BROKER,
        Code.DELETE_SUBSCRIPTIONGROUP,
        Code.DELETE_TOPIC_IN_BROKER,
        Code.DELETE_TOPIC_IN_NAMESRV,
        Code.INVOKE_BROKER_TO_RESET_OFFSET,
        Code.CLEAN_EXPIRED_CONSUMEQUEUE,
        Code.QUERY_CORRECTION_OFFSET,
        Code.CLONE_GROUP_OFFSET,
        Code.CLEAN_UNUSED_TOPIC,
        Code.UPDATE_NAMESRV_CONFIG,
        Code.RESUME_CHECK_HALF_MESSAGE,
        Code.ADD_WRITE_PERM_OF_BROKER,
        Code.DELETE_EXPIRED_COMMITLOG,
        *(code for code, access in OUR_CODES.items() if access is Access.ADMIN),
    }
)
"""Request codes that change a server or show its secrets."""
ACCOUNT_CODES = ADMIN_CODES | {Code.GET_BROKER_CLUSTER_ACL_INFO}
"""Request codes that need an admin account when access control is on. They include the request for
the version of the access files."""

_PRIVATE = "10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,169.254.0.0/16,fc00::/7,fe80::/10"
"""RFC 1918, RFC 4193 and link-local. Python's `is_private` includes more networks."""


class Guard:
    """A list of trusted networks; `allow` replaces it while the server runs."""

    def __init__(self, key: str, addresses: str) -> None:
        self.key = key
        self._networks: list[IPv4Network | IPv6Network] = []
        self.allow(addresses)

    def allow(self, addresses: str) -> None:
        """Replace the list of networks. ValueError names a bad network and changes nothing."""
        self._networks = networks(addresses)

    @property
    def is_open(self) -> bool:
        """Whether no network is configured."""
        return not self._networks

    def trusts(self, remote: str) -> bool:
        """Whether a peer, "ip:port", is on this machine or in a configured network."""
        address = address_of(remote)
        if address.is_loopback or any(address in network for network in self._networks):
            return True
        return is_own_address(str(address))


def is_private(remote: str) -> bool:
    """Whether a peer, "ip:port", is on this machine or in a private network."""
    address = address_of(remote)
    if address.is_loopback or any(address in network for network in networks(_PRIVATE)):
        return True
    return is_own_address(str(address))


def address_of(remote: str) -> IPv4Address | IPv6Address:
    """The address of a peer, "ip:port"."""
    address = ip_address(host_of(remote))
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def host_of(remote: str) -> str:
    """The host of "ip:port" or "[ip6]:port"."""
    return remote.rpartition(":")[0].strip("[]")


def guarded(processors: Mapping[int, Processor], guard: Guard) -> dict[int, Processor]:
    """The same processors; the administrative ones refuse peers that are not trusted."""
    return {
        code: _for_trusted(processor, guard) if code in ADMIN_CODES else processor
        for code, processor in processors.items()
    }


def _for_trusted(processor: Processor, guard: Guard) -> Processor:
    def checked(request: Request) -> Reply:
        if not guard.trusts(request.remote):
            raise Refused(
                ResponseCode.NO_PERMISSION,
                f"{host_of(request.remote)} may not administer this server (request "
                f"{request.code}); add its network to {guard.key} in the server's settings",
            )
        return processor(request)

    return checked
