"""Certificates that end soon: `/metrics` says when, and the log warns."""

from __future__ import annotations

import logging
import ssl
import time
from pathlib import Path
from urllib.request import urlopen

import pytest

from mqclient import Admin, Message, Producer, TlsConfig, UnreachableError
from mqserver.embedded.in_process import InProcessServers
from mqserver.tls.certificates import CertificateWatch
from mqserver.tls.expiry import AGAIN_S, Expiry
from tests.certificates import Authority
from tests.waiting import answer_of

LISTEN = {"metricsListen": "127.0.0.1:0", "listenPort": "0", "bindAddress": "127.0.0.1"}
DAY_S = 86_400


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def end_of(path: str) -> int:
    """The format of Python's own ssl module."""
    decoded = ssl._ssl._test_decode_cert(path)  # type: ignore[attr-defined]
    return int(ssl.cert_time_to_seconds(decoded["notAfter"]))


def figures(port: int | None) -> dict[str, float]:
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    rows = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name.partition("{")[0]: float(value) for name, _, value in rows}


def test_both_servers_have_rows_for_tls(authority: Authority, tmp_path: Path):
    shown = authority.issue("server", days=90)
    tls = {"tls.server.certPath": shown.cert, "tls.server.keyPath": shown.key}
    store = {"storePathRootDir": str(tmp_path / "store"), "mappedFileSizeCommitLog": str(1 << 20)}
    names = {**LISTEN, **tls, "kvConfigPath": f"{tmp_path}/kv.json"}
    pair = InProcessServers(
        names, {**LISTEN, **tls, **store, "maxHashSlotNum": "100", "maxIndexNum": "400"}
    )
    pair.start()
    try:
        assert pair.server is not None and pair.names is not None
        with Producer(pair.namesrv, tls=TlsConfig(ca_file=authority.ca)) as producer:
            producer.send(Message("Counted", b"x"))
        (tmp_path / "other").mkdir()
        stranger = TlsConfig(ca_file=Authority(tmp_path / "other").ca)
        with (
            Admin(pair.namesrv, tls=stranger) as admin,
            pytest.raises(UnreachableError, match="issuer is not trusted"),
        ):
            admin.topics.names()
        broker = figures(pair.server.metrics_port)
        namesrv = answer_of(  # the server hears of it a little later
            lambda: figures(pair.names.metrics_port),
            lambda found: found["rocketmq_namesrv_tls_failed_total"],
        )
    finally:
        pair.stop()
    end = "tls_certificate_expiry_timestamp_seconds"
    assert broker[f"rocketmq_{end}"] == namesrv[f"rocketmq_namesrv_{end}"] == end_of(shown.cert)
    assert (broker["rocketmq_tls_sessions_total"], broker["rocketmq_tls_failed_total"]) == (1, 0)
    assert namesrv["rocketmq_namesrv_tls_sessions_total"] >= 1
    assert namesrv["rocketmq_namesrv_tls_failed_total"] >= 1  # a refused client tries again


@pytest.mark.parametrize(
    ("days", "words"),
    [
        (31, None),
        (29, "expires in 29 days, at "),
        (1, "expires in 1 days, at "),
        (-3, "expired at "),
    ],
)
def test_the_log_warns_once_a_day(authority: Authority, caplog, days: int, words: str | None):
    path = authority.issue("server", days=days).cert
    now = time.time()
    expiry = Expiry(path, lambda: now)
    expiry.read()
    for _ in range(3):
        expiry.look()
    said = [record.getMessage() for record in caplog.records]
    if words is None:
        assert said == []
        return
    assert len(said) == 1 and said[0].startswith(f"the certificate {path} {words}")
    now += AGAIN_S
    expiry.look()
    assert len(caplog.records) == 2


def test_a_renewed_certificate_is_looked_at_anew(authority: Authority, caplog):
    pair = authority.issue("server", days=2)
    watch = CertificateWatch(
        {"mode": "permissive", "cert": pair.cert, "key": pair.key}, lambda _tls: None, watch_s=3600
    )
    watch.start()
    try:
        assert watch.ends_at == end_of(pair.cert)
        assert "expires in 2 days" in caplog.text
        authority.issue("server", days=90)
        caplog.clear()
        with caplog.at_level(logging.INFO, "mqserver"):
            watch.look()
            watch.look()
            watch.look()
        assert watch.ends_at == end_of(pair.cert) > time.time() + 80 * DAY_S
    finally:
        watch.stop()
    assert "expires" not in caplog.text and "new connections use" in caplog.text


def test_a_certificate_of_no_file_has_no_end():
    watch = CertificateWatch({"mode": "permissive"}, lambda _tls: None)
    watch.start()
    assert watch.ends_at is None
    watch.stop()
