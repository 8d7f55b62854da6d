"""TLS settings: RocketMQ's system properties as keys (`TlsSystemConfig`), and our own.

A TLS key may be set in the configuration file, in the file that `tls.config.file` names and with
`--set`. As in RocketMQ, the file that `tls.config.file` names wins over the configuration file.
"""

from __future__ import annotations

import os

from mqserver.config.table import Group, ours, setting

TLS_FILE = "/etc/rocketmq/tls.properties"


class ServerTlsSettings(Group):
    """`tls.server.*` and `tls.test.mode.enable`: a server's certificate, and checks of clients."""

    # fmt: off
    mode: str = setting("tls.server.mode", "permissive",
        "connections that the server accepts: disabled plain only, permissive plain and TLS, "
        "enforcing TLS only: docs/tls.md",
        choices=("disabled", "permissive", "enforcing"), important=True)
    tls_config_file: str = setting("tls.config.file", TLS_FILE,
        "properties file with the tls keys; it is read if it exists")
    tls_test_mode_enable: bool = setting("tls.test.mode.enable", True,
        "show a self-signed certificate when tls.server.certPath is empty; set to true "
        "explicitly: even with a certificate. For tests only")
    cert_path: str = setting("tls.server.certPath", "",
        "certificate chain of the server, PEM")
    key_path: str = setting("tls.server.keyPath", "",
        "private key of tls.server.certPath, PEM")
    key_password: str = setting("tls.server.keyPassword", "",
        "password of an encrypted tls.server.keyPath", secret=True)
    need_client_auth: str = setting("tls.server.need.client.auth", "none",
        "whether clients must show a certificate: none, optional or require",
        choices=("none", "optional", "require"))
    auth_client: bool = setting("tls.server.authClient", True,
        "verify the certificates of clients against tls.server.trustCertPath; false, RocketMQ's "
        "default, accepts any certificate")
    trust_cert_path: str = setting("tls.server.trustCertPath", "",
        "certificate authorities of clients, PEM")
    handshake_timeout_millis: int = ours("tls.server.handshakeTimeoutMillis", 10_000,
        "close a connection whose TLS handshake takes longer",
        unit="ms", floor=100, ceiling=120_000)
    max_handshakes: int = ours("tls.server.maxHandshakes", 1024,
        "most TLS handshakes at a time, limited to a quarter of maxConnections; one more closes "
        "the connection that has been silent for longest", floor=1)
    max_handshakes_per_address: int = ours("tls.server.maxHandshakesPerAddress", 512,
        "most TLS handshakes at a time from one address (IPv6: from one /64 network)", floor=1)
    # fmt: on


class ClientTlsSettings(Group):
    """`tls.client.*`: the broker's certificate for NameServers, and the check of theirs."""

    # fmt: off
    cert_path: str = setting("tls.client.certPath", "",
        "certificate chain that the broker shows to NameServers, PEM")
    key_path: str = setting("tls.client.keyPath", "",
        "private key of tls.client.certPath, PEM")
    key_password: str = setting("tls.client.keyPassword", "",
        "password of an encrypted tls.client.keyPath", secret=True)
    auth_server: bool = setting("tls.client.authServer", True,
        "verify the certificates of NameServers; false, RocketMQ's default, accepts any "
        "certificate")
    verify_host: bool = ours("tls.client.verifyHost", True,
        "require that a NameServer's certificate names its host")
    trust_cert_path: str = setting("tls.client.trustCertPath", "",
        "certificate authorities of NameServers, PEM; empty: the system's")
    # fmt: on


FILES = ("certPath", "keyPath", "trustCertPath")


def missing_file(value: str) -> str | None:
    """Why a file cannot be read; None if the file exists or no file is named."""
    return None if not value or os.path.isfile(value) else "there is no such file"
