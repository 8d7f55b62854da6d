"""TLS settings: RocketMQ's system properties as keys, and our own. Rules: server.md 0.3.

They may stand in the configuration file, in the file that `tls.config.file` names (whose values
win, as in RocketMQ) and in `--set`.
"""

from __future__ import annotations

import os

from mqserver.config.table import Setting

TLS_FILE = "/etc/rocketmq/tls.properties"

TLS_SERVER = (
    Setting("tls.server.mode", "permissive", "plain connections, TLS, or both: docs/tls.md",
            choices=("disabled", "permissive", "enforcing"), important=True),
    Setting("tls.config.file", TLS_FILE, "properties file of the tls keys, read if it is there"),
    Setting("tls.test.mode.enable", True, "without tls.server.certPath show a self-signed "
            "certificate; set to true: even with one"),
    Setting("tls.server.certPath", "", "certificate chain, PEM"),
    Setting("tls.server.keyPath", "", "its private key, PEM"),
    Setting("tls.server.keyPassword", "", "of an encrypted key", secret=True),
    Setting("tls.server.need.client.auth", "none", "ask clients for certificates",
            choices=("none", "optional", "require")),
    Setting("tls.server.authClient", True, "look whose certificates clients show (false, "
            "RocketMQ's default, takes any)"),
    Setting("tls.server.trustCertPath", "", "authorities of clients' certificates, PEM"),
    Setting("tls.server.handshakeTimeoutMillis", 10_000, "close a connection whose handshake "
            "takes longer", unit="ms", floor=100, ceiling=120_000),
    Setting("tls.server.maxHandshakes", 1024, "handshakes at once, at most a quarter of "
            "maxConnections; one more closes the one whose client has been silent for longest",
            floor=1),
    Setting("tls.server.maxHandshakesPerAddress", 512, "the same for one address (IPv6: one "
            "network of 64 bits)", floor=1),
)  # fmt: skip

TLS_CLIENT = (
    Setting("useTLS", False, "speak TLS with NameServers; not set: true if tls.server.mode is "
            "enforcing", aliases=("tls.enable",)),
    Setting("tls.client.certPath", "", "certificate chain to show NameServers, PEM"),
    Setting("tls.client.keyPath", "", "its private key, PEM"),
    Setting("tls.client.keyPassword", "", "of an encrypted key", secret=True),
    Setting("tls.client.authServer", True, "look whose certificates NameServers show (false, "
            "RocketMQ's default, takes any)"),
    Setting("tls.client.verifyHost", True, "they must be made out to the NameServer's host"),
    Setting("tls.client.trustCertPath", "", "authorities of NameServers' certificates, PEM; "
            "empty: the system's"),
)  # fmt: skip

FILES = ("certPath", "keyPath", "trustCertPath")


def missing_file(value: str) -> str | None:
    """Why a file cannot be read; None if it is none, or there."""
    return None if not value or os.path.isfile(value) else "there is no such file"
