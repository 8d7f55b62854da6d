"""`mqclient bench` under TLS: every kind of load, at servers that take nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mqclient.cli.bench import bench
from mqserver import Standalone
from tests.certificates import Authority, encrypt

PASSWORD = "open sesame"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def secured(authority: Authority) -> Iterator[Standalone]:
    """Servers that take TLS only, and ask for certificates."""
    pair = authority.issue("server")
    shared = {
        "tls.server.mode": "enforcing",
        "tls.server.certPath": pair.cert,
        "tls.server.keyPath": pair.key,
        "tls.server.need.client.auth": "require",
        "tls.server.trustCertPath": authority.ca,
    }
    told = {"tls.client.trustCertPath": authority.ca, **client(authority)}
    with Standalone(settings={**shared, **told}, namesrv_settings=shared) as running:
        yield running


def client(authority: Authority) -> dict[str, str]:
    pair = encrypt(authority.issue("client"), PASSWORD)
    return {
        "tls.client.certPath": pair.cert,
        "tls.client.keyPath": pair.key,
        "tls.client.keyPassword": PASSWORD,
    }


@pytest.fixture(scope="module")
def properties(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The TLS file that all commands accept."""
    path = tmp_path_factory.mktemp("client") / "tls.properties"
    told = {"tls.client.trustCertPath": authority.ca, **client(authority)}
    path.write_text("".join(f"{key}={value}\n" for key, value in told.items()))
    return path


def run(mq: Standalone, *arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(bench, [*arguments, "-n", mq.namesrv])
    return result.exit_code, result.stdout, result.stderr


def report(mq: Standalone, properties: Path, *arguments: str) -> dict[str, Any]:
    """The report of a run that must be a good one."""
    code, out, words = run(mq, *arguments, "--tls-config", str(properties), "--output", "json")
    assert (code, words) == (0, ""), (out, words)
    whole: list[dict[str, Any]] = json.loads(out)
    assert PASSWORD not in out and whole[0]["settings"]["load"]["tls"] is True
    return whole[0]


@pytest.mark.parametrize(
    ("topic", "mode"),
    [
        ("SyncTls", ""),
        ("WindowTls", "--in-flight 64 --headers rocketmq --threads 2"),
        ("BatchTls", "--batch 10 --in-flight 4"),
        ("OnewayTls", "--oneway --in-flight 8"),
        ("RateTls", "--rate 5000"),
        ("LargeTls", "--body-bytes 300000 --in-flight 8"),
    ],
)
def test_what_was_sent_is_stored_and_consumed(
    secured: Standalone, properties: Path, topic: str, mode: str
):
    here = ("-t", topic, "--warmup", "0")
    new = ("--queues", "4")  # known before the load begins
    sent = report(secured, properties, "produce", *here, *new, "--count", "60", *mode.split())
    assert (sent["totals"]["sent"], sent["totals"]["stored"]) == (60, 60)
    read = report(secured, properties, "consume", *here, "--commit")
    assert (read["messages"], read["totals"]["missing"]) == (60, 0)
    assert sent["name"].split(", ")[-1] == "tls"


def test_latency_follows_every_message(secured: Standalone, properties: Path):
    here = ("-t", "LatencyTls", "--warmup", "0", "--queues", "4")
    found = report(
        secured,
        properties,
        "latency",
        *here,
        "--duration",
        "0.5",
        "--rate",
        "500",
        "--readers",
        "2",
    )
    assert found["messages"] == found["totals"]["sent"] == 250
    assert (found["totals"]["lost"], found["totals"]["duplicates"]) == (0, 0)


def test_connections_are_held(secured: Standalone, properties: Path):
    report(secured, properties, "produce", "-t", "HeldTls", "--count", "1", "--queues", "4")
    storm = ("--connections", "20", "--rate", "200", "--heartbeat", "0.1", "--duration", "1")
    found = report(secured, properties, "connect", "-t", "HeldTls", *storm)
    assert found["totals"]["connected"] == found["latency_us"]["count"] == 20
    assert found["totals"]["heartbeats"] > 20


def test_who_is_not_trusted_is_said(secured: Standalone, tmp_path: Path):
    path = tmp_path / "tls.properties"
    path.write_text(f"tls.client.trustCertPath={Authority(tmp_path, 'other').ca}\n")
    code, _, words = run(secured, "produce", "--tls-config", str(path))
    assert code == 3
    assert f"{secured.namesrv}: no TLS: the certificate's issuer is not trusted" in words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tls.client.trustCertPath=/nowhere/ca.pem", "/nowhere/ca.pem: there is no such file"),
        ("tls.client.trustCertPath=FOLDER/tls.properties", "holds no certificate in PEM"),
        ("tls.client.certPath=/nowhere/x.pem", "give both or neither"),
    ],
)
def test_files_that_cannot_be_used_are_named(
    secured: Standalone, tmp_path: Path, text: str, words: str
):
    path = tmp_path / "tls.properties"
    path.write_text(text.replace("FOLDER", str(tmp_path)))
    code, out, said = run(secured, "consume", "--tls-config", str(path))
    assert (code, out) == (2, "")
    assert words in " ".join(said.split())
