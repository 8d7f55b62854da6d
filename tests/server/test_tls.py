"""TLS on the port of plain connections: modes, client certificates, renewal, bad handshakes."""

from __future__ import annotations

import logging
import shutil
import socket
import ssl
from contextlib import contextmanager
from pathlib import Path

import pytest

from mqserver.config.loaded import SettingsError
from mqserver.runtime.listener import Listener
from mqserver.runtime.processor_api import Response
from mqserver.tls.certificates import CertificateWatch
from tests.certificates import Authority, encrypt
from tests.server.conftest import Servers
from tests.server.raw import DEADLINE, Raw, json_frame
from tests.waiting import until


def echo(request):
    return Response(0, None, request.fields, request.body)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def tls_of(authority: Authority, mode: str = "permissive", **more: object) -> dict[str, object]:
    pair = authority.issue("server")
    return {"mode": mode, "cert": pair.cert, "key": pair.key, **more}


@contextmanager
def secured(port: int, context: ssl.SSLContext):
    """A connection under TLS, with the methods of a plain one."""
    plain = socket.create_connection(("127.0.0.1", port), DEADLINE)
    with context.wrap_socket(plain, server_hostname="127.0.0.1") as wrapped:
        yield Raw.over(wrapped)


def unchecked() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def client_hello(context: ssl.SSLContext) -> bytes:
    """The first bytes of a client."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with pytest.raises(ssl.SSLWantReadError):
        session.do_handshake()
    return outgoing.read()


@pytest.mark.parametrize("mode", ["permissive", "enforcing"])
def test_a_connection_under_tls_is_answered(servers: Servers, authority: Authority, mode: str):
    listener, port = servers.start({1: echo}, tls=tls_of(authority, mode))
    with secured(port, authority.context()) as raw:
        for size in (0, 100, 20_000, 5 << 20):
            assert raw.ask(json_frame(1, size, None, b"x" * size)).body == b"x" * size
        raw.send(*[json_frame(1, n, None, b"y" * n) for n in range(500)])
        assert {raw.read().opaque for _ in range(500)} == set(range(500))
    assert listener.counters()["tls_sessions"] == 1


def test_plain_and_tls_share_the_port(servers: Servers, authority: Authority):
    listener, port = servers.start({1: echo}, tls=tls_of(authority))
    with secured(port, authority.context()) as raw:
        plain = servers.connect(port)
        assert plain.ask(json_frame(1, 1)).code == 0
        assert raw.ask(json_frame(1, 2)).code == 0
    assert listener.counters()["tls_failed"] == 0


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_both_versions_that_are_safe(servers: Servers, authority: Authority, version):
    _, port = servers.start({1: echo}, tls=tls_of(authority))
    context = authority.context()
    context.minimum_version = context.maximum_version = version
    with secured(port, context) as raw:
        assert raw.ask(json_frame(1, 1)).code == 0


def test_enforcing_takes_no_plain_connection(servers: Servers, authority: Authority):
    listener, port = servers.start({1: echo}, tls=tls_of(authority, "enforcing"))
    plain = servers.connect(port)
    plain.send(json_frame(1, 1))
    assert plain.is_closed()
    wanted = "its client does not use TLS, but tls.server.mode is enforcing"
    assert servers.wait_event("tls").detail == wanted
    assert listener.counters()["tls_failed"] == 1


@pytest.mark.parametrize("tls", [{}, {"tls": {"mode": "disabled"}}])
def test_disabled_takes_no_tls(servers: Servers, tls):
    _, port = servers.start({1: echo}, **tls)
    with pytest.raises((ssl.SSLError, ConnectionError)), secured(port, unchecked()):
        pass
    wanted = "its client uses TLS, but tls.server.mode is disabled"
    assert servers.wait_event("tls").detail == wanted
    assert servers.connect(port).ask(json_frame(1, 1)).code == 0


def test_without_files_the_certificate_is_self_signed(servers: Servers, authority: Authority):
    _, port = servers.start({1: echo}, tls={"mode": "permissive"})
    with secured(port, unchecked()) as raw:
        assert raw.ask(json_frame(1, 1)).code == 0
    with (
        pytest.raises(ssl.SSLCertVerificationError),
        secured(port, authority.context()),
    ):
        pass
    assert "does not trust our certificate's issuer" in servers.wait_event("tls").detail


@pytest.mark.parametrize(
    ("client_auth", "nothing", "stranger"),
    [("none", True, True), ("optional", True, False), ("require", False, False)],
)
def test_client_certificates(
    servers: Servers, authority: Authority, tmp_path: Path, client_auth, nothing, stranger
):
    tls = tls_of(authority, client_auth=client_auth, trust=authority.ca)
    _, port = servers.start({1: echo}, tls=tls)
    other = Authority(tmp_path, "other").issue("stranger")
    for shown, taken in ((None, nothing), (other, stranger), (authority.issue("known"), True)):
        assert answers(port, authority.context(shown)) is taken, shown


def answers(port: int, context: ssl.SSLContext) -> bool:
    try:
        with secured(port, context) as raw:
            return raw.ask(json_frame(1, 1)).code == 0
    except (ssl.SSLError, ConnectionError, EOFError):
        return False


def test_any_client_certificate_unless_they_are_checked(servers, authority, tmp_path):
    tls = tls_of(authority, client_auth="require", trust=None)
    _, port = servers.start({1: echo}, tls=tls)
    stranger = Authority(tmp_path, "other").issue("stranger")
    assert answers(port, authority.context(stranger))
    assert not answers(port, authority.context())


def serial(port: int) -> str:
    plain = socket.create_connection(("127.0.0.1", port), DEADLINE)
    with unchecked().wrap_socket(plain) as wrapped:
        data = wrapped.getpeercert(binary_form=True)
        assert data is not None
        return data.hex()


def test_new_files_are_shown_without_a_restart(servers, authority, caplog):
    tls = tls_of(authority)
    listener, port = servers.start({1: echo}, tls=tls)
    first = serial(port)
    with secured(port, authority.context()) as raw, caplog.at_level(logging.INFO, "mqserver"):
        authority.issue("server")  # over the old files
        assert until(lambda: serial(port) != first)
        assert raw.ask(json_frame(1, 1)).code == 0  # the old session still works
        second = serial(port)
        Path(str(tls["key"])).write_text("no key")
        assert until(lambda: "TLS files cannot be used" in caplog.text)
        assert serial(port) == second
        authority.issue("server")
        assert until(lambda: serial(port) != second)
    said = [
        record.message for record in caplog.records if "TLS files cannot be used" in record.message
    ]
    assert said == [
        "the changed TLS files cannot be used; the old certificate stays: "
        f"{tls['key']}: holds no private key in PEM"
    ]
    listener.stop()


def ends(raw: Raw) -> bool:
    """Whether the server closes, perhaps after an alert."""
    try:
        while raw.socket.recv(100):
            pass
    except ConnectionResetError:
        return True
    return True


def test_files_are_taken_once_all_are_written(authority, tmp_path):
    pair = authority.issue("server")
    shown: list[object] = []
    watch = CertificateWatch(
        {"mode": "permissive", "cert": pair.cert, "key": pair.key}, shown.append
    )
    new = Authority(tmp_path, "new").issue("renewed")
    shutil.copy(new.cert, pair.cert)
    watch.look()
    shutil.copy(new.key, pair.key)  # between two looks: the pair does not fit before
    watch.look()
    assert not shown
    watch.look()
    watch.look()
    assert len(shown) == 1


def test_a_handshake_that_stops_costs_only_itself(servers: Servers, authority: Authority):
    tls = tls_of(authority, "enforcing", handshake_timeout=4.0)
    listener, port = servers.start({1: echo}, tls=tls, worker_threads=1)
    hello = client_hello(authority.context())
    stuck = [servers.connect(port) for _ in range(20)]
    for number, raw in enumerate(stuck):
        raw.socket.sendall(hello[: 1 + number * 10])
    with secured(port, authority.context()) as good:
        assert good.ask(json_frame(1, 1)).code == 0
        assert all(ends(raw) for raw in stuck)
        assert good.ask(json_frame(1, 2)).code == 0
    wanted = "the TLS handshake was not complete after 4 s"
    assert servers.wait_event("tls").detail == wanted
    assert until(lambda: listener.counters()["tls_failed"] == 20)


def test_bytes_that_are_no_handshake(servers: Servers, authority: Authority):
    _, port = servers.start({1: echo}, tls=tls_of(authority))
    for junk in (
        b"\x16" * 40,
        b"\x16\x03\x01\x00\x05hello",
        b"\x16\x03\x01\xff\xff" + b"z" * 70_000,
    ):
        raw = servers.connect(port)
        raw.socket.sendall(junk)
        assert ends(raw)
    assert servers.connect(port).ask(json_frame(1, 1)).code == 0


def test_an_encrypted_key_needs_its_password(servers: Servers, authority: Authority):
    pair = encrypt(authority.issue("server"), "open sesame")
    tls = {"mode": "permissive", "cert": pair.cert, "key": pair.key}
    _, port = servers.start({1: echo}, tls={**tls, "key_password": "open sesame"})
    assert answers(port, authority.context())
    for password, wanted in ((None, "set its password"), ("guess", "cannot be decrypted")):
        with pytest.raises(SettingsError, match=wanted) as raised:
            servers.start({1: echo}, tls={**tls, "key_password": password})
        assert "sesame" not in str(raised.value) and "guess" not in str(raised.value)


def test_files_that_cannot_be_used_are_named(servers: Servers, authority: Authority, tmp_path):
    one, two = authority.issue("one"), authority.issue("two")
    cases = [
        ({"cert": one.cert, "key": two.key}, r"one\.crt: is not the certificate of the key"),
        ({"cert": one.key, "key": one.key}, r"one\.key: holds no certificate in PEM"),
        ({"cert": one.cert, "key": str(tmp_path / "no")}, "no: No such file"),
        ({"cert": one.cert}, "give both or neither"),
        ({"mode": "sometimes"}, "disabled, permissive or enforcing"),
    ]
    for tls, wanted in cases:
        with pytest.raises(SettingsError, match=wanted):
            servers.start({1: echo}, tls={"mode": "permissive", **tls})


def stalled(servers: Servers, port: int, hello: bytes, count: int) -> list[Raw]:
    """Connections that began a handshake and stopped."""
    all_of_them = []
    for _ in range(count):
        raw = servers.connect(port)
        raw.socket.sendall(hello)
        all_of_them.append(raw)
    return all_of_them


def settle(listener: Listener, accepted: int, given_up: int) -> None:
    """Wait until the server has met so many connections and given up so many handshakes."""
    wanted = {"connections_accepted": accepted, "handshakes_given_up": given_up}
    assert until(lambda: listener.counters().items() >= wanted.items()), listener.counters()


def test_handshakes_that_stop_keep_nobody_out(servers: Servers, authority: Authority):
    tls = tls_of(authority, max_handshakes=40, max_source_handshakes=20, handshake_timeout=600.0)
    listener, port = servers.start({1: echo}, tls=tls)
    hello = client_hello(authority.context())[:100]
    silent = []
    for number in range(60):  # one after the other, so that the server knows which is the oldest
        silent += stalled(servers, port, hello, 1)
        settle(listener, accepted=number + 1, given_up=max(number - 19, 0))
    assert answers(port, authority.context()), "from the same address"
    assert all(ends(raw) for raw in silent[:40]), "the oldest go first"
    with socket.create_connection(("127.0.0.1", port), 30, ("127.0.0.2", 0)) as plain:
        context = authority.context()
        with context.wrap_socket(plain, server_hostname="127.0.0.1") as wrapped:
            assert Raw.over(wrapped).ask(json_frame(1, 1)).code == 0
    wanted = "its TLS handshake was dropped to make room for a newer one"
    assert servers.wait_event("tls").detail == wanted


def test_handshakes_take_at_most_a_quarter_of_the_connections(
    servers: Servers, authority: Authority
):
    tls = tls_of(authority, handshake_timeout=60.0)
    listener, port = servers.start({1: echo}, tls=tls, max_connections=20)
    hello = client_hello(authority.context())[:100]
    for count in range(1, 31):
        stalled(servers, port, hello, 1)
        settle(listener, count, max(0, count - 5))
    assert until(lambda: listener.counters()["connections"] == 5)
    assert servers.connect(port).ask(json_frame(1, 1)).code == 0
    assert listener.counters()["connections_refused"] == 0
