"""Import paths of users stay valid when the code moves."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PUBLIC = {
    "mqclient": (
        "Admin GroupConfig LitePullConsumer Message Producer PushConsumer TopicConfig "
        "TransactionProducer reply"
    ),
    "mqclient.admin": (
        "Admin MessageTrack OffsetChange OffsetPlan RollbackStats ShiftBy ToOffset version_name"
    ),
    "mqclient.aio": "Admin LitePullConsumer Message Producer PushConsumer TransactionProducer",
    "mqclient.errors": "BrokerError ClientTimeout NoRouteError RocketMQError UnreachableError",
    "mqclient.logging": "RocketMQHandler",
    "mqclient.mock": "MockTransport",
    "mqclient.oms": "AccessPoint",
    "mqclient.otel": "instrument processing",
    "mqclient.metrics": "ClientMetrics METRICS OpenTelemetryMetrics PrometheusMetrics",
    "mqclient.middleware": "Middleware SendContext",
    "mqclient.serializers": "Json MessagePack Text message_of value_of",
    "mqclient.spark": "deduplicated register",
    "mqclient.wire": "Frame RequestCode ResponseCode",
    "mqclient.wire.bodies.topics": "TopicConfig",
    "mqpipeline": "audit compact dlq recover replay to_lake",
    "mqpipeline.spark": "deduplicated register",
    "mqserver": "Standalone",
    "mqserver.pytest_plugin": "mq_broker mq_namesrv",
    "mqserver.standalone": "Standalone",
    "mqserver.testing": "free_port",
    "mqstore": "Message ReceivedMessage Settings Store StoreReader open",
    "mqstore.errors": "StoreDamaged StoreError",
    "mqstore.spark": "register",
}
"""Module: names that README, docs/ or examples/ import from it, or a program may."""
EXTRAS = {"mqclient.otel": "opentelemetry", "mqpipeline": "pyspark", "mqstore.spark": "pyspark"}


@pytest.mark.parametrize("module", PUBLIC)
def test_a_public_path_has_its_names(module: str) -> None:
    if module in EXTRAS:
        pytest.importorskip(EXTRAS[module])
    found = import_module(module)
    missing = [name for name in PUBLIC[module].split() if not hasattr(found, name)]
    assert not missing, f"keep {module}: import these from their new home"


def test_thin_modules_hold_no_code() -> None:
    """A path that only stays for programs imports names from the home, and does nothing else."""
    for module in PUBLIC:
        path = ROOT / f"{module.replace('.', '/')}.py"
        if not path.exists() or module.endswith(".errors"):
            continue
        kinds = {type(node) for node in ast.parse(path.read_text()).body}
        assert kinds <= {ast.Expr, ast.ImportFrom, ast.Assign}, path
