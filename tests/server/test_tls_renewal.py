"""The broker's own certificates towards NameServers are renewed without a restart."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqclient import Admin
from mqserver import Standalone
from tests.certificates import Authority, Pair
from tests.waiting import until


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def over(pair: Pair, new: Pair) -> None:
    """Overwrite a certificate and its key with new ones."""
    shutil.copy(new.cert, pair.cert)
    shutil.copy(new.key, pair.key)


def pair_of(authority: Authority, shown: Pair, trust: str) -> Standalone:
    """A NameServer that asks brokers for certificates of the authority, and a broker."""
    server = authority.issue("server")
    names = {
        "tls.server.certPath": server.cert,
        "tls.server.keyPath": server.key,
        "tls.server.need.client.auth": "optional",
        "tls.server.trustCertPath": authority.ca,
    }
    broker = {
        "useTLS": "true",
        "tls.client.certPath": shown.cert,
        "tls.client.keyPath": shown.key,
        "tls.client.trustCertPath": trust,
    }
    return Standalone(settings=broker, namesrv_settings=names)


@pytest.fixture
def stranger(tmp_path: Path) -> Authority:
    (tmp_path / "stranger").mkdir()
    return Authority(tmp_path / "stranger")


def is_registered(mq: Standalone) -> bool:
    with Admin(mq.namesrv) as admin:
        return bool(admin.brokers.clusters().broker_addr_table)


@pytest.fixture
def shown(authority: Authority) -> Iterator[Pair]:
    yield authority.issue("broker")


def test_a_certificate_that_was_refused_is_renewed(authority, stranger, shown):
    over(shown, stranger.issue("broker"))
    with pair_of(authority, shown, authority.ca) as running:
        assert not is_registered(running)
        over(shown, authority.issue("renewed"))
        assert until(lambda: is_registered(running))


def test_a_new_authority_is_trusted(authority, stranger, shown, tmp_path):
    trusted = str(tmp_path / "trusted.pem")
    shutil.copy(stranger.ca, trusted)
    with pair_of(authority, shown, trusted) as running:
        assert not is_registered(running)
        shutil.copy(authority.ca, trusted)
        assert until(lambda: is_registered(running))


def test_what_cannot_be_used_changes_nothing(authority, shown, caplog):
    with (
        pair_of(authority, shown, authority.ca) as running,
        caplog.at_level(logging.INFO, "mqserver"),
    ):
        assert is_registered(running)
        Path(shown.key).write_text("no key")
        assert until(lambda: "TLS files cannot be used" in caplog.text)
        running.topic("StillTold")
        over(shown, authority.issue("renewed"))
        assert until(lambda: "TLS files changed: new connections use" in caplog.text)
        assert is_registered(running)
    said = [
        record.message for record in caplog.records if "TLS files cannot be used" in record.message
    ]
    assert said == [
        "the changed TLS files cannot be used; the old certificate stays: "
        f"{shown.key}: holds no private key in PEM"
    ]
