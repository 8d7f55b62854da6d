"""Certificates made for one test: an authority, and files of the certificates that it signed."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)


class Pair(NamedTuple):
    """Files of a certificate and its key."""

    cert: str
    key: str


class Authority:
    """Signs certificates; the file `ca` holds its own certificate."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self.folder = folder
        self._ca = trustme.CA()
        self.ca = str(folder / f"{name}.pem")
        self._ca.cert_pem.write_to_path(self.ca)

    def issue(self, name: str, host: str = "127.0.0.1", *, days: int = 30) -> Pair:
        """A certificate for a host in NAME.crt and its PKCS#8 key in NAME.key.

        days: until it expires; negative: since it did.
        """
        end = datetime.now(UTC) + timedelta(days=days)
        made = self._ca.issue_cert(host, not_before=end - timedelta(days=90), not_after=end)
        pair = Pair(str(self.folder / f"{name}.crt"), str(self.folder / f"{name}.key"))
        chain = b"".join(pem.bytes() for pem in made.cert_chain_pems)
        Path(pair.cert).write_bytes(chain)
        key = load_pem_private_key(made.private_key_pem.bytes(), None)
        Path(pair.key).write_bytes(_pem(key))
        return pair

    def context(self, shown: Pair | None = None) -> ssl.SSLContext:
        """An ssl context that trusts this authority, for clients of Python's own ssl module."""
        context = ssl.create_default_context(cafile=self.ca)
        if shown is not None:
            context.load_cert_chain(*shown)
        return context


def encrypt(pair: Pair, password: str) -> Pair:
    """The same certificate, its key encrypted."""
    path = Path(pair.key)
    key = load_pem_private_key(path.read_bytes(), None)
    locked = path.with_suffix(".locked.key")
    locked.write_bytes(_pem(key, password))
    return Pair(pair.cert, str(locked))


def _pem(key: object, password: str = "") -> bytes:
    from cryptography.hazmat.primitives.serialization import NoEncryption

    encryption = BestAvailableEncryption(password.encode()) if password else NoEncryption()
    data: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)  # type: ignore[attr-defined]
    return data
