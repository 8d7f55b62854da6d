"""The error tree, and what its texts say."""

import re
from pathlib import Path

import pytest

import mqclient
from mqclient import (
    BrokerError,
    ClientTimeout,
    ClosedError,
    NoRouteError,
    NotDurable,
    RocketMQError,
    UnreachableError,
    errors,
)
from mqclient.wire import Frame, calls
from mqstore.message import MessageQueue


def test_tree():
    for kind in (BrokerError, NoRouteError, ClientTimeout, UnreachableError, ClosedError):
        assert issubclass(kind, RocketMQError)
    assert issubclass(NotDurable, BrokerError)
    assert issubclass(ClientTimeout, TimeoutError)
    assert issubclass(UnreachableError, ConnectionError)


def test_broker_error_text():
    error = BrokerError(2, "[REJECTREQUEST]", "broker-a")
    assert str(error).startswith("broker-a answered SYSTEM_BUSY (2): [REJECTREQUEST]; ")
    assert (error.code, error.remark, error.broker) == (2, "[REJECTREQUEST]", "broker-a")
    assert str(BrokerError(4711)) == "code 4711"


def test_calls_turn_bad_codes_into_errors():
    call = calls.max_offset(MessageQueue("T", "a", 0))
    assert call.result(Frame(0, {"offset": "7"})) == 7
    with pytest.raises(BrokerError, match="h:1 answered SYSTEM_ERROR"):
        call.result(Frame(1, remark="x"), "h:1")
    query = calls.query_consumer_offset("g", MessageQueue("T", "a", 0))
    assert query.result(Frame(22)) is None


def test_every_exported_name_exists():
    for name in mqclient.__all__:
        assert getattr(mqclient, name) is not None
    assert set(mqclient.__all__) <= set(dir(mqclient))
    with pytest.raises(AttributeError, match="no attribute 'Consumer'"):
        mqclient.Consumer  # noqa: B018


def test_the_clients_page_names_every_error():
    page = (Path(__file__).parents[2] / "docs" / "client.md").read_text()
    section = page.split("\n## Errors\n")[1].split("\n## ")[0]
    named = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
    assert sorted(named) == errors.__all__
