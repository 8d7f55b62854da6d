"""Only trusted addresses may administer a server."""

from __future__ import annotations

import pytest

from mqcommon.own_address import interface_addresses
from mqcommon.wire.codes import OUR_CODES
from mqcommon.wire.frame import Frame
from mqserver.embedded.raw_client import Probe
from mqserver.embedded.standalone import Standalone
from mqserver.runtime.guard import ADMIN_CODES, Guard, guarded, host_of
from mqserver.runtime.processor_api import Response
from tests.fakes import FakeRequest, answer


@pytest.mark.parametrize(
    ("remote", "trusted"),
    [
        ("127.0.0.1:5", True),
        ("127.9.9.9:5", True),
        ("[::1]:5", True),
        ("[::ffff:127.0.0.1]:5", True),
        ("10.1.2.3:5", True),
        ("[::ffff:10.1.2.3]:5", True),
        ("10.2.2.3:5", False),
        ("192.0.2.7:5", True),
        ("[fd00::7]:5", True),
        ("[fe80::7]:5", False),
    ],
)
def test_loopback_and_the_named_networks_are_trusted(remote: str, trusted: bool) -> None:
    guard = Guard("adminAllowAddresses", "10.1.0.0/16, 192.0.2.7;fd00::/8")
    assert guard.trusts(remote) is trusted


@pytest.mark.skipif(not interface_addresses(), reason="only loopback here")
def test_this_machines_own_addresses_are_trusted_as_loopback_is() -> None:
    guard = Guard("adminAllowAddresses", "")
    for own in interface_addresses():
        assert guard.trusts(f"{own}:5") and guard.trusts(f"[::ffff:{own}]:5")
        beside = f"{own.rpartition('.')[0]}.{(int(own.rpartition('.')[2]) + 1) % 250}"
        assert not guard.trusts(f"{beside}:5"), "a neighbour is not this machine"
    with Standalone(host="0.0.0.0") as mq:
        for server, code in ((mq.broker_address, 25), (mq.namesrv, 318)):
            port = server.rpartition(":")[2]
            with Probe(f"{interface_addresses()[0]}:{port}") as probe:
                assert probe.call(Frame(code)).code == 0


def test_a_new_list_replaces_the_old_one() -> None:
    guard = Guard("key", "10.0.0.0/8")
    guard.allow("")
    assert guard.is_open
    assert not guard.trusts("10.0.0.1:1")
    with pytest.raises(ValueError, match="nonsense"):
        guard.allow("nonsense")


def test_only_administration_is_guarded() -> None:
    processors = guarded(
        {code: lambda _: Response() for code in (17, 21, 25, 310)},
        Guard("adminAllowAddresses", ""),
    )
    for code, processor in processors.items():
        reply = answer(processor, FakeRequest(code, remote="203.0.113.9:1"))
        assert isinstance(reply, Response)
        assert reply.code == (16 if code in ADMIN_CODES else 0)
        if reply.code:
            assert "add its network to adminAllowAddresses" in (reply.remark or "")
        assert answer(processor, FakeRequest(code)) == Response()


def test_the_guarded_codes_are_those_of_the_design() -> None:
    """A code that Rust serves would bypass the guard, so none of these codes may be native."""
    native = {10, 11, 14, 15, 30, 31, 37, 38, 41, 42, 105, 310, 320}
    assert {17, 25, 200, 207, 215, *range(50, 55)} - {52} <= ADMIN_CODES
    assert not native & ADMIN_CODES and len(ADMIN_CODES - OUR_CODES.keys()) == 22


def test_hosts() -> None:
    assert host_of("10.0.0.1:5") == "10.0.0.1"
    assert host_of("[::1]:5") == "::1"
