"""TLS of a client: which authorities it trusts, and which certificate it shows.

RocketMQ's clients trust any server by default. Ours verify the certificate, as every
other TLS client does, and `TlsConfig(verify="none")` is RocketMQ's default.
"""

import os
from dataclasses import KW_ONLY
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

from mqclient.settings.declare import Declared, Option, declared
from mqcommon import java_properties

__all__ = ["TlsConfig", "connector_tls", "read_tls", "tls_from_environment"]

Verify = Literal["full", "ca", "none"]

ENVIRONMENT = "MQ_TLS_CONFIG"
"""Environment variable that names the file of the commands: see `read_tls`."""
FILE_BYTES_MAX = 64 << 10


class ConnectorTls(TypedDict):
    """TLS settings of the compiled client."""

    verify: str
    trust: str | None
    cert: str | None
    key: str | None
    key_password: str | None


def _path(name: str, path: Any) -> Any:
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"{name} must be a path or None, not {path!r}")
    return path


@declared
class TlsConfig(Declared):
    """TLS with NameServers and brokers.

    A missing file is a ValueError when the client starts; a file that cannot be used is an error
    of the first request.
    """

    _: KW_ONLY
    ca_file: Annotated[
        str | os.PathLike[str] | None,
        Option(
            "PEM file of the authorities that are trusted, or of the servers' own certificates; "
            "None trusts the system's",
            read=_path,
            kind="str | PathLike",
        ),
    ] = None
    verify: Annotated[
        Verify,
        Option(
            '"full" checks issuer and dates, and that the certificate names the address that is '
            'used; "ca" does not check the address; "none" checks nothing'
        ),
    ] = "full"
    cert_file: Annotated[
        str | os.PathLike[str] | None,
        Option(
            "PEM file of the certificate for servers that ask for one; needs key_file",
            read=_path,
            kind="str | PathLike",
        ),
    ] = None
    key_file: Annotated[
        str | os.PathLike[str] | None,
        Option("PEM file of the certificate's key", read=_path, kind="str | PathLike"),
    ] = None
    key_password: Annotated[str | None, Option("password of an encrypted key", secret=True)] = None

    def _check(self) -> None:
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("cert_file and key_file go together: give both or neither")


def connector_tls(config: TlsConfig) -> ConnectorTls:
    """Settings for the transport. Raises ValueError for a missing file."""
    return {
        "verify": config.verify,
        "trust": _checked("ca_file", config.ca_file),
        "cert": _checked("cert_file", config.cert_file),
        "key": _checked("key_file", config.key_file),
        "key_password": config.key_password,
    }


def tls_from_environment() -> TlsConfig | None:
    """The settings in the file that MQ_TLS_CONFIG names; None without the variable.

    Raises ValueError or OSError as `read_tls`.
    """
    path = os.environ.get(ENVIRONMENT)
    return read_tls(path) if path else None


def read_tls(path: str | os.PathLike[str]) -> TlsConfig | None:
    """Read RocketMQ's TLS properties `tls.enable` and `tls.client.*`; None if TLS is disabled.

    Besides RocketMQ's keys, `tls.client.verifyHost=false` is verify="ca". `authServer` is true
    unless the file says false. Other keys are ignored: the file may be a server's.
    Raises ValueError for a bad value, OSError.
    """
    with Path(path).open("rb") as file:
        text = file.read(FILE_BYTES_MAX + 1)
    if len(text) > FILE_BYTES_MAX:
        raise ValueError(f"{path} is over {FILE_BYTES_MAX} bytes, too large for a tls.properties")
    values = java_properties.read(text.decode("utf-8", "replace"))

    def is_on(key: str) -> bool:
        word = values.get(key, "true").lower()
        if word not in ("true", "false"):
            raise ValueError(f"{path}: {key}={word}: must be true or false")
        return word == "true"

    if not is_on("tls.enable"):
        return None
    checked: Verify = "full" if is_on("tls.client.verifyHost") else "ca"
    return TlsConfig(
        ca_file=values.get("tls.client.trustCertPath") or None,
        verify=checked if is_on("tls.client.authServer") else "none",
        cert_file=values.get("tls.client.certPath") or None,
        key_file=values.get("tls.client.keyPath") or None,
        key_password=values.get("tls.client.keyPassword") or None,
    )


def _checked(name: str, path: str | os.PathLike[str] | None) -> str | None:
    if path is not None and not Path(path).is_file():
        raise ValueError(f"{name} {os.fspath(path)}: there is no such file")
    return None if path is None else os.fspath(path)
