"""`Standalone`, as tests and notebooks use it."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from mqclient import Admin, Message, Producer
from mqserver import Standalone


def test_messages_name_their_broker() -> None:
    with Standalone(settings={"brokerName": "mine"}) as mq, Producer(mq.namesrv) as producer:
        topic = mq.topic()
        producer.send(Message(topic, b"x"))
        (found,) = mq.messages(topic)
    assert found.broker_name == "mine"


@pytest.mark.parametrize("in_a_process", [False, True])
def test_a_start_that_fails_leaves_no_folder(in_a_process: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        mq = Standalone(port=taken.getsockname()[1], process=in_a_process)
        with pytest.raises((OSError, RuntimeError), match="in use"), mq:
            pass
    assert not mq.data.exists()


@pytest.mark.parametrize("given", ["settings", "namesrv_settings"])
def test_an_unknown_setting_is_refused(given: str) -> None:
    mq = Standalone(**{given: {"listenPrt": "1"}})  # type: ignore[arg-type]
    with pytest.raises(
        ValueError, match=r"standalone: unknown key listenPrt; did you mean listenP"
    ):
        mq.start()
    assert not mq.data.exists()


def test_a_folder_of_ones_own_stays(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        mq = Standalone(tmp_path / "mine", port=taken.getsockname()[1])
        with pytest.raises(OSError, match="in use"):
            mq.start()
    assert mq.data.exists()


def test_a_used_temporary_store_survives_a_failed_start() -> None:
    with Standalone(process=True) as mq:
        topic = mq.topic()
        with Producer(mq.namesrv) as producer:
            producer.send(Message(topic, b"x"))
        mq.kill()
        port = int(mq.broker_settings["listenPort"])
        with socket.create_server(("127.0.0.1", port)), pytest.raises(RuntimeError):
            mq.start()
        mq.start()
        assert [one.body for one in mq.messages(topic)] == [b"x"]
    assert not mq.data.exists()


def changed_online(mq: Standalone) -> dict[str, str]:
    """Settings that may change online, as the running servers show them."""
    with Admin(mq.namesrv) as admin:
        (names,) = admin.namesrv.config().values()
        shown = {**admin.brokers.config(mq.broker_address), **names}
    keys = ("autoCreateTopicEnable", "traceOn", "orderMessageEnable")
    return {key: shown[key] for key in keys}


@pytest.mark.parametrize("in_a_process", [False, True])
def test_changes_made_online_outlive_a_restart(in_a_process: bool, tmp_path: Path) -> None:
    wanted = {
        "autoCreateTopicEnable": "false",
        "traceOn": "false",
        "orderMessageEnable": "true",
    }
    with Standalone(tmp_path / "store", process=in_a_process) as mq:
        with Admin(mq.namesrv) as admin:
            admin.namesrv.update_config({"orderMessageEnable": "true"})
            both = {key: wanted[key] for key in ("autoCreateTopicEnable", "traceOn")}
            admin.brokers.update_config(mq.broker_address, both)
        assert changed_online(mq) == wanted
        mq.restart()
        assert changed_online(mq) == wanted
    flags = {"autoCreateTopicEnable": "true"}
    with Standalone(tmp_path / "store", process=in_a_process, settings=flags) as mq:
        assert changed_online(mq) == {**wanted, **flags}, "a flag wins over a change made online"
