"""The machine's own addresses."""

import ipaddress
import socket

import pytest

from mqcommon import own_address


def test_loopback_is_an_own_address_a_documentation_one_is_not():
    assert own_address.is_own_address("127.0.0.1")
    assert not own_address.is_own_address("192.0.2.1")


def test_a_machine_without_a_network_is_loopback_to_itself(monkeypatch):
    def unreachable(*_):
        raise OSError("no route")

    class Unconnected(socket.socket):
        connect = unreachable

    monkeypatch.setattr(socket, "socket", Unconnected)
    assert own_address.outgoing_address() is None
    assert own_address.own_address() == "127.0.0.1"
    assert not own_address.is_own_address("127.0.0.1")


@pytest.mark.skipif(not own_address.interface_addresses(), reason="only loopback here")
def test_every_address_of_an_interface_is_an_own_address():
    for address in own_address.interface_addresses():
        assert not ipaddress.ip_address(address).is_loopback
        assert own_address.is_own_address(address)
