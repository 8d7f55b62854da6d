"""Our clients under TLS: the certificates they trust, their errors, and the commands."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqadmin.main import main as mqadmin
from mqclient import Admin, Message, Producer, PushConsumer, TlsConfig, UnreachableError
from mqclient.cli.main import main
from mqclient.engine.tls import read_tls
from mqserver import Standalone
from mqserver.config.broker_table import BROKER
from mqserver.config.load import load, pairs
from mqserver.config.loaded import SettingsError
from mqserver.config.namesrv_table import NAMESRV
from mqserver.config.settings import broker_settings
from mqserver.embedded.testing import free_port
from tests.certificates import Authority, Pair, encrypt

DEADLINE = 60.0


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


def keys(pair: Pair, mode: str = "enforcing", **more: str) -> dict[str, str]:
    """A server's settings."""
    files = {"tls.server.certPath": pair.cert, "tls.server.keyPath": pair.key}
    return {"tls.server.mode": mode, **files, **more}


@pytest.fixture(scope="module")
def secured(authority: Authority) -> Iterator[Standalone]:
    """Servers that take TLS only; the broker reaches its NameServer under TLS."""
    settings = keys(authority.issue("server"))
    told = {"tls.client.trustCertPath": authority.ca}
    with Standalone(settings={**settings, **told}, namesrv_settings=settings) as running:
        yield running


def test_messages_come_through(secured: Standalone, authority: Authority):
    tls = TlsConfig(ca_file=authority.ca)
    bodies = {b"%d " % number + b"x" * (number * 997) for number in range(200)}
    got: set[bytes] = set()
    done = threading.Event()

    def take(messages, _context):
        got.update(message.body for message in messages)
        if got >= bodies:
            done.set()

    with Producer(secured.namesrv, tls=tls) as producer:
        for body in bodies:
            assert producer.send(Message("Secured", body)).raise_for_status()
    with PushConsumer("g_tls", secured.namesrv, consume_from="earliest", tls=tls) as consumer:
        consumer.subscribe("Secured", "*", take)
        assert done.wait(DEADLINE), len(got)


def test_without_tls_the_error_names_the_way_out(secured: Standalone):
    with Producer(secured.namesrv) as producer, pytest.raises(UnreachableError) as raised:
        producer.send(Message("Secured", b"x"))
    assert "if it takes only TLS, give the client tls=TlsConfig()" in str(raised.value)


@pytest.mark.parametrize(
    ("tls", "wanted"),
    [
        (TlsConfig(), "the certificate's issuer is not trusted"),
        ("other", "the certificate's issuer is not trusted"),
    ],
)
def test_who_is_not_trusted_is_said(secured: Standalone, tmp_path: Path, tls, wanted):
    if tls == "other":
        tls = TlsConfig(ca_file=Authority(tmp_path).ca)
    with Producer(secured.namesrv, tls=tls) as producer, pytest.raises(UnreachableError) as raised:
        producer.send(Message("Secured", b"x"))
    assert f"no TLS with {secured.namesrv}: {wanted}" in str(raised.value)


@pytest.mark.parametrize(
    ("days", "host", "verify", "wanted"),
    [
        (-1, "127.0.0.1", "full", "the certificate has expired"),
        (-1, "127.0.0.1", "ca", "the certificate has expired"),
        (30, "elsewhere.example", "full", 'certificate not valid for name "127.0.0.1"'),
        (30, "elsewhere.example", "ca", None),
        (-1, "elsewhere.example", "none", None),
    ],
)
def test_certificates_that_are_not_right(authority: Authority, days, host, verify, wanted):
    pair = authority.issue("wrong", host, days=days)
    with Standalone(namesrv_settings=keys(pair, "permissive")) as running:
        tls = TlsConfig(ca_file=authority.ca, verify=verify)
        with Admin(running.namesrv, tls=tls) as admin:
            if wanted is None:
                assert admin.brokers.clusters().broker_addr_table
                return
            with pytest.raises(UnreachableError) as raised:
                admin.brokers.clusters()
    assert wanted in str(raised.value)


def test_a_server_that_takes_no_tls_is_said(authority: Authority):
    with (
        Standalone(namesrv_settings={"tls.server.mode": "disabled"}) as running,
        Admin(running.namesrv, tls=TlsConfig(ca_file=authority.ca)) as admin,
        pytest.raises(UnreachableError, match=f"no TLS with {running.namesrv}: "),
    ):
        admin.topics.names()


def test_client_certificates(authority: Authority):
    pair = authority.issue("server")
    asks = {"tls.server.need.client.auth": "require", "tls.server.trustCertPath": authority.ca}
    shown = encrypt(authority.issue("client"), "open sesame")
    broker = {"useTLS": "true", "tls.client.trustCertPath": authority.ca}
    broker |= {"tls.client.certPath": shown.cert, "tls.client.keyPath": shown.key}
    broker |= {"tls.client.keyPassword": "open sesame"}
    settings = keys(pair, **asks)
    with Standalone(settings={**settings, **broker}, namesrv_settings=settings) as running:
        known = TlsConfig(ca_file=authority.ca, cert_file=shown.cert, key_file=shown.key,
                    key_password="open sesame")  # fmt: skip
        with Producer(running.namesrv, tls=known) as producer:
            assert producer.send(Message("Secured", b"x")).raise_for_status()
        with (
            Producer(running.namesrv, tls=TlsConfig(ca_file=authority.ca)) as producer,
            pytest.raises(UnreachableError, match="it requires a client certificate"),
        ):
            producer.send(Message("Secured", b"x"))
        with Admin(running.namesrv, tls=known) as admin:
            told = admin.brokers.config(running.broker_address)
    assert told["tls.client.keyPassword"] == "******"


def test_the_broker_does_not_believe_any_nameserver(authority: Authority, tmp_path: Path, caplog):
    pair = authority.issue("server")
    stranger = Authority(tmp_path, "stranger")
    broker = {"useTLS": "true", "tls.client.trustCertPath": stranger.ca}
    names = keys(pair, "permissive")
    with (
        Standalone(settings=broker, namesrv_settings=names) as running,
        Admin(running.namesrv) as admin,
    ):
        assert not admin.brokers.clusters().broker_addr_table
    assert "the certificate's issuer is not trusted" in caplog.text


def test_commands(secured: Standalone, authority: Authority, tmp_path: Path, capsys, monkeypatch):
    config = tmp_path / "tls.properties"
    config.write_text(f"# ours\ntls.client.trustCertPath = {authority.ca}\n")
    where = ["-n", secured.namesrv]
    assert secured.topic("ByProbe") == "ByProbe"
    create = ["updateTopic", "-b", secured.broker_address, "-t", "ByHand"]
    with monkeypatch.context() as patch:
        patch.setenv("MQ_TLS_CONFIG", str(config))
        assert mqadmin([*create, *where]) == 0
    capsys.readouterr()
    assert main(["send", "ByHand", "hello", *where, "--tls-config", str(config)]) == 0
    assert json.loads(capsys.readouterr().out)["status"] == "SEND_OK"
    monkeypatch.setenv("MQ_TLS_CONFIG", str(config))
    assert main(["tail", "ByHand", *where, "--from", "earliest", "--count", "1"]) == 0
    assert json.loads(capsys.readouterr().out)["body"] == "hello"
    assert mqadmin(["topicList", *where]) == 0
    assert "ByHand" in capsys.readouterr().out
    assert main(["bench", "produce", "-t", "ByHand", "--count", "1", *where]) == 0
    assert json.loads(capsys.readouterr().out)["messages"] == 1
    config.write_text("tls.client.authServer=perhaps\n")
    assert main(["tail", "ByHand", *where]) == 2
    assert "tls.client.authServer=perhaps: must be true or false" in capsys.readouterr().err


def test_a_properties_file(tmp_path: Path):
    config = tmp_path / "tls.properties"
    cases = [
        ("", TlsConfig()),
        ("tls.enable=false", None),
        ("tls.client.authServer=false\ntls.server.mode=enforcing", TlsConfig(verify="none")),
        ("tls.client.verifyHost=false", TlsConfig(verify="ca")),
        (
            "tls.client.certPath=c\ntls.client.keyPath=k\ntls.client.keyPassword=p",
            TlsConfig(cert_file="c", key_file="k", key_password="p"),
        ),
        # java.util.Properties reads these so, and with it RocketMQ.
        ("tls.client.trustCertPath : /a\\:b\\\\c", TlsConfig(ca_file="/a:b\\c")),
        ("tls.client.trustCertPath=/a/\\\n    b", TlsConfig(ca_file="/a/b")),
    ]
    for text, wanted in cases:
        config.write_text(text)
        assert read_tls(config) == wanted
    assert "hush" not in repr(TlsConfig(cert_file="c", key_file="k", key_password="hush"))


def test_arguments_that_do_not_fit(tmp_path: Path):
    with pytest.raises(ValueError, match="verify must be 'full' or 'ca' or 'none', not 'some'"):
        TlsConfig(verify="some")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="give both or neither"):
        TlsConfig(cert_file="c")
    with pytest.raises(ValueError, match=r"ca_file .*missing: there is no such file"):
        Producer("127.0.0.1:9876", tls=TlsConfig(ca_file=tmp_path / "missing")).start()
    (tmp_path / "empty").touch()
    with (
        Admin("127.0.0.1:9876", tls=TlsConfig(ca_file=tmp_path / "empty")) as admin,
        pytest.raises(ValueError, match="empty: holds no certificate in PEM"),
    ):
        admin.topics.names()


def test_settings_of_servers(authority: Authority, tmp_path: Path):
    pair = authority.issue("server")
    refused = [
        ({"tls.server.certPath": pair.cert}, "needs tls.server.keyPath as well"),
        (keys(Pair(str(tmp_path / "no"), pair.key)), "there is no such file"),
        ({"tls.server.mode": "maybe"}, "one of disabled, permissive, enforcing"),
        (
            {"tls.server.mode": "enforcing", "tls.test.mode.enable": "false"},
            "needs tls.server.cert",
        ),
        ({"tls.server.mode": "enforcing"}, "needs tls.server.cert"),
        (
            keys(pair, **{"tls.server.need.client.auth": "require"}),
            "needs tls.server.trustCertPath",
        ),
        ({"tls.config.file": str(tmp_path / "no")}, "cannot read"),
    ]
    for given, wanted in refused:
        with pytest.raises(SettingsError, match=wanted):
            broker_settings(load(BROKER, flags=pairs(given, "--set")))
    asked = {"tls.server.mode": "enforcing", "tls.test.mode.enable": "true"}
    assert broker_settings(load(BROKER, flags=pairs(asked, "--set"))).server_tls.mode == "enforcing"
    file = tmp_path / "tls.properties"
    file.write_text("tls.server.need.client.auth=optional\ntls.server.authClient=false\n")
    given = {"tls.config.file": str(file), "tls.server.authClient": "true", "tls.enable": "true"}
    given["tls.server.trustCertPath"] = authority.ca
    settings = broker_settings(load(BROKER, flags=pairs(given, "--set")))
    assert settings.server_tls.need_client_auth == "optional"
    assert settings.server_tls.auth_client and settings.use_tls
    assert (
        settings.server_tls.tls_test_mode_enable
    )  # RocketMQ's default: without a certificate, self-signed
    shared = {"tls.config.file": str(file)}
    file.write_text("tls.client.trustCertPath=ca.pem\ntls.server.mod=enforcing\n")
    assert load(NAMESRV, flags=pairs(shared, "--set")).warnings == [
        f"{file}:2: unknown key tls.server.mod, ignored; did you mean tls.server.mode?"
    ]
    settings = broker_settings(load(BROKER, flags=pairs(keys(pair), "--set")))
    assert settings.use_tls and not settings.server_tls.tls_test_mode_enable


@pytest.mark.parametrize("server", ["namesrv", "broker"])
def test_enforcing_tls_without_a_certificate_fails_the_start(server: str, tmp_path: Path):
    command = [sys.executable, "-m", "mqserver.cli", server, "start"]
    for word in ("tls.server.mode=enforcing", f"listenPort={free_port()}"):
        command += ["--set", word]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("mqserver: --set: tls.server.mode=enforcing: needs tls.server.certPath")
