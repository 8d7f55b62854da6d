"""Alerts and dashboard name metrics and labels that the servers have, and the page names alerts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from promql_parser import AggregateExpr, Expr, VectorSelector, parse, walk

from mqcommon.wire.frame import Frame
from mqserver.embedded.in_process import InProcessServers
from mqserver.embedded.raw_client import Probe
from mqserver.runtime.processor_api import Refused
from tests.certificates import Authority

ROOT = Path(__file__).parents[2]
ALERTS = ROOT / "deploy" / "prometheus-alerts.yaml"
DASHBOARD = ROOT / "deploy" / "grafana-dashboard.json"
PAGE = ROOT / "docs" / "operations" / "alerts.md"
LISTEN = {"metricsListen": "127.0.0.1:0", "listenPort": "0", "bindAddress": "127.0.0.1"}
SMALL = {"mappedFileSizeCommitLog": str(1 << 20), "maxHashSlotNum": "100", "maxIndexNum": "400"}
OF_PROMETHEUS = {"up": {"job"}}
"""A metric that Prometheus makes, with its labels."""
OF_EACH_TARGET = {"job", "instance"}

Metrics = dict[str, set[str]]
"""The labels of each metric."""


@pytest.fixture(scope="module")
def metrics(tmp_path_factory: pytest.TempPathFactory) -> Metrics:
    """The metrics of a broker and a NameServer where each metric has a row."""
    home = tmp_path_factory.mktemp("metrics")
    shown = Authority(home).issue("server")
    tls = {"tls.server.certPath": shown.cert, "tls.server.keyPath": shown.key}
    pair = InProcessServers(
        {**LISTEN, **tls, "kvConfigPath": f"{home}/kv.json"},
        {**LISTEN, **tls, **SMALL, "storePathRootDir": f"{home}/store"},
    )
    pair.start()
    try:
        assert pair.server is not None and pair.names is not None
        with Probe(pair.broker) as probe:
            use(probe)
            pair.server.services.failed("scan", "a test")
            pair.names.services.failed("dead-brokers", "a test")
            with pytest.raises(Refused):
                pair.names.names.routes.bounds.check_ids("b", "10.0.0.1", 0, 10_000)
            return {
                name: labels
                for port in (pair.server.metrics_port, pair.names.metrics_port)
                for name, labels in read(port)
            }
    finally:
        pair.stop()


def use(probe: Probe) -> None:
    """A stored message, its consumer, and a producer."""
    consumer = {
        "groupName": "readers",
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
        "subscriptionDataSet": [{"topic": "Orders", "subString": "*", "subVersion": 1}],
        "unitMode": False,
    }
    member = {"clientID": "c", "producerDataSet": [{"groupName": "p"}]}
    letters = {"a": "p", "b": "Orders", "c": "TBW102", "d": "1", "e": "0", "f": "0", "g": "1"}
    place = {"consumerGroup": "readers", "topic": "Orders", "queueId": "0"}
    pull = {"queueOffset": "0", "maxMsgNums": "1", "sysFlag": "6", "subVersion": "1"}
    pull |= {"commitOffset": "0", "suspendTimeoutMillis": "60000"}
    for request in (
        Frame(310, {**letters, "h": "0", "i": "", "m": "false"}, b"order 17"),
        Frame(34, {}, json.dumps({**member, "consumerDataSet": [consumer]}).encode()),
        Frame(15, {**place, "commitOffset": "0"}),
        Frame(11, {**place, **pull}),
    ):
        reply = probe.call(request)
        assert reply.code == 0, reply.remark


def read(port: int | None) -> Iterator[tuple[str, set[str]]]:
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            yield sample.name, set(sample.labels)


def rules() -> list[dict[str, Any]]:
    return [
        rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]
    ]


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(DASHBOARD.read_text())
    return found


def panels() -> list[dict[str, Any]]:
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def expressions() -> list[str]:
    """Every expression, with Grafana's variable for a duration replaced by one."""
    asked = [target["expr"] for panel in panels() for target in panel["targets"]]
    return [rule["expr"] for rule in rules()] + [
        text.replace("$__rate_interval", "5m") for text in asked
    ]


def parts(text: str) -> list[Expr]:
    found: list[Expr] = []
    walk(parse(text), found.append)
    return found


@pytest.mark.parametrize("text", expressions())
def test_an_expression_names_metrics_and_labels_that_exist(metrics: Metrics, text: str) -> None:
    known = metrics | OF_PROMETHEUS
    used: set[str] = set()
    selectors = [part for part in parts(text) if isinstance(part, VectorSelector)]
    assert selectors
    for selector in selectors:
        assert selector.name in known
        labels = known[selector.name] | OF_EACH_TARGET
        used |= labels
        assert {matcher.name for matcher in selector.matchers.matchers} <= labels
    for part in parts(text):
        if isinstance(part, AggregateExpr) and part.modifier:
            assert set(part.modifier.labels) <= used


def test_the_metrics_that_warn_of_trouble_have_alerts() -> None:
    """A metric that is 0 while all is well has an alert."""
    quiet = {
        "service_failures",
        "replies_lost",
        "bounds_reached",
        "requests_overloaded",
        "connections_refused",
    }
    quiet |= {"storage_refuses_messages", "half_messages_set_aside", "storage_dispatch_behind"}
    quiet |= {
        f"storage_{name}" for name in ("damaged_records", "delayed_messages", "queue_entries")
    }
    text = ALERTS.read_text()
    assert not [name for name in quiet if f"rocketmq_{name}" not in text]


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_an_alert_says_what_to_do(metrics: Metrics, rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("warning", "critical")
    assert set(rule["annotations"]) == {"summary", "description"}
    used = {
        label
        for part in parts(rule["expr"])
        if isinstance(part, VectorSelector)
        for label in (metrics | OF_PROMETHEUS)[part.name] | OF_EACH_TARGET
    }
    for text in rule["annotations"].values():
        assert set(re.findall(r"\$labels\.(\w+)", text)) <= used
        for page in re.findall(r"docs/\S+?\.md", text):
            assert (ROOT / page).is_file(), page


def test_the_page_has_every_alert() -> None:
    table = re.findall(r"^\| `(Mqstack\w+)` \| (\w+) \|", PAGE.read_text(), re.MULTILINE)
    assert table == [(rule["alert"], rule["labels"]["severity"]) for rule in rules()]


def test_the_dashboard_has_what_grafana_requires() -> None:
    board = dashboard()
    assert {"title", "uid", "schemaVersion", "templating", "time", "panels"} <= set(board)
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)
    for panel in board["panels"]:
        assert {"id", "type", "title", "gridPos"} <= set(panel)
        assert set(panel["gridPos"]) == {"h", "w", "x", "y"}
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
    for panel in panels():
        names = [target["refId"] for target in panel["targets"]]
        assert names and len(set(names)) == len(names)
        for target in panel["targets"]:
            assert target["datasource"] == panel["datasource"] == board_source()


def board_source() -> dict[str, str]:
    return {"type": "prometheus", "uid": "${datasource}"}


def test_the_variables_of_the_dashboard(metrics: Metrics) -> None:
    variables = {row["name"]: row for row in dashboard()["templating"]["list"]}
    used = set(re.findall(r"\$(?!__)\{?(\w+)", DASHBOARD.read_text()))
    assert used == set(variables)
    for row in variables.values():
        if row["type"] == "query":
            asked = re.fullmatch(r"label_values\((.+), (\w+)\)", row["query"])
            assert asked
            (selector,) = parts(asked[1])
            assert asked[2] in metrics[selector.name]
