"""A broker gets its NameServers from an HTTP address server, and follows changes of the list."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from mqclient.engine import address_server
from mqcommon.wire.frame import Frame
from mqserver.config.load import load
from mqserver.embedded.raw_client import ask
from mqserver.embedded.standalone import Standalone
from tests.address_list import AddressList
from tests.e2e.test_registration import namesrv, route
from tests.waiting import until


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(address_server, "FIRST_S", 0.05)
    monkeypatch.setattr(address_server, "PERIOD_S", 0.05)


def settings_of(server: AddressList) -> dict[str, str]:
    return {
        "namesrvAddr": "",
        "fetchNamesrvAddrByAddressServer": "true",
        "rocketmq.namesrv.domain": server.domain,
        "rmqAddressServerSubGroup": "mine",
    }


def test_a_broker_registers_where_the_address_server_says(tmp_path: Path) -> None:
    with (
        namesrv(tmp_path / "1") as one,
        namesrv(tmp_path / "2") as two,
        AddressList(f" {one.address}\n") as server,
    ):
        with Standalone(settings=settings_of(server)) as mq:
            assert until(lambda: bool(route(one.address, "TBW102")))
            assert server.asked[0] == "/rocketmq/mine"
            server.body = f"{one.address};{two.address}"
            assert until(lambda: bool(route(two.address, "TBW102")))
            topic = {"topic": "Made", "defaultTopic": "TBW102", "readQueueNums": "1",
                     "writeQueueNums": "1", "perm": "6", "topicFilterType": "SINGLE_TAG",
                     "topicSysFlag": "0", "order": "false"}  # fmt: skip
            assert ask(mq.broker_address, Frame(17, topic)).code == 0
            assert route(one.address, "Made") == route(two.address, "Made") != b""
        assert route(two.address, "Made") == b"", "it unregistered"


def test_a_bad_answer_keeps_the_list_and_is_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        namesrv(tmp_path) as one,
        AddressList(one.address) as server,
        Standalone(settings=settings_of(server)),
        caplog.at_level(logging.WARNING),
    ):
        assert until(lambda: bool(route(one.address, "TBW102")))
        server.body = "<html>"
        asked = len(server.asked)
        assert until(lambda: len(server.asked) > asked + 4)
        server.body, server.status = one.address, 200
        asked = len(server.asked)
        assert until(lambda: len(server.asked) > asked + 1)
        assert route(one.address, "TBW102")
    lines = [line for line in caplog.messages if "answered without addresses" in line]
    assert len(lines) == 1
    assert f"keeping {one.address}" in lines[0]


def test_namesrv_addr_may_change_while_running(tmp_path: Path) -> None:
    with (
        namesrv(tmp_path / "1") as one,
        namesrv(tmp_path / "2") as two,
        Standalone(settings={"namesrvAddr": one.address}) as mq,
    ):
        assert route(one.address, "TBW102")
        moved = Frame(25, body=f"namesrvAddr={two.address}".encode())
        assert ask(mq.broker_address, moved).code == 0
        assert until(lambda: bool(route(two.address, "TBW102")))
        bad = ask(mq.broker_address, Frame(25, body=b"namesrvAddr=nowhere"))
        assert (bad.code, "must be host:port" in (bad.remark or "")) == (1, True)


def test_the_keys_of_system_properties_are_known() -> None:
    from mqserver.config.broker_table import BROKER

    text = [("rocketmq.namesrv.domain", "d", "t"), ("rocketmq.namesrv.domain.subgroup", "s", "t")]
    loaded = load(BROKER, flags=text)
    assert not loaded.warnings
    assert loaded.values["rmqAddressServerDomain"] == "d"
    assert loaded.values["rmqAddressServerSubGroup"] == "s"
