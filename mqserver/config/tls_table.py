"""TLS settings: RocketMQ's system properties as keys, and our own. Rules: `TlsSystemConfig`.

They may stand in the configuration file, in the file that `tls.config.file` names (whose values
win, as in RocketMQ) and in `--set`.
"""

from __future__ import annotations

import os

from mqserver.config.table import Group, ours, setting

TLS_FILE = "/etc/rocketmq/tls.properties"


class ServerTlsSettings(Group):
    """`tls.server.*`, and `tls.test.mode.enable`: what a server shows and asks for."""

    # fmt: off
    mode: str = setting("tls.server.mode", "permissive",
        "plain connections, TLS, or both: docs/tls.md",
        choices=("disabled", "permissive", "enforcing"), important=True)
    tls_config_file: str = setting("tls.config.file", TLS_FILE,
        "properties file of the tls keys, read if it is there")
    tls_test_mode_enable: bool = setting("tls.test.mode.enable", True,
        "without tls.server.certPath show a self-signed certificate; set to true: even with one")
    cert_path: str = setting("tls.server.certPath", "", "certificate chain, PEM")
    key_path: str = setting("tls.server.keyPath", "", "its private key, PEM")
    key_password: str = setting("tls.server.keyPassword", "", "of an encrypted key", secret=True)
    need_client_auth: str = setting("tls.server.need.client.auth", "none",
        "ask clients for certificates", choices=("none", "optional", "require"))
    auth_client: bool = setting("tls.server.authClient", True,
        "look whose certificates clients show (false, RocketMQ's default, takes any)")
    trust_cert_path: str = setting("tls.server.trustCertPath", "",
        "authorities of clients' certificates, PEM")
    handshake_timeout_millis: int = ours("tls.server.handshakeTimeoutMillis", 10_000,
        "close a connection whose handshake takes longer",
        unit="ms", floor=100, ceiling=120_000)
    max_handshakes: int = ours("tls.server.maxHandshakes", 1024,
        "handshakes at once, at most a quarter of maxConnections; one more closes the one whose "
        "client has been silent for longest", floor=1)
    max_handshakes_per_address: int = ours("tls.server.maxHandshakesPerAddress", 512,
        "the same for one address (IPv6: one network of 64 bits)", floor=1)
    # fmt: on


class ClientTlsSettings(Group):
    """`tls.client.*`: what a broker shows NameServers, and whom it believes."""

    # fmt: off
    cert_path: str = setting("tls.client.certPath", "",
        "certificate chain to show NameServers, PEM")
    key_path: str = setting("tls.client.keyPath", "", "its private key, PEM")
    key_password: str = setting("tls.client.keyPassword", "", "of an encrypted key", secret=True)
    auth_server: bool = setting("tls.client.authServer", True,
        "look whose certificates NameServers show (false, RocketMQ's default, takes any)")
    verify_host: bool = ours("tls.client.verifyHost", True,
        "they must be made out to the NameServer's host")
    trust_cert_path: str = setting("tls.client.trustCertPath", "",
        "authorities of NameServers' certificates, PEM; empty: the system's")
    # fmt: on


FILES = ("certPath", "keyPath", "trustCertPath")


def missing_file(value: str) -> str | None:
    """Why a file cannot be read; None if it is none, or there."""
    return None if not value or os.path.isfile(value) else "there is no such file"
