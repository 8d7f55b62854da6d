"""Clients get the NameServers from an HTTP address server, and keep the last list if it fails."""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from mqclient import ClientId, Message, Producer, UnreachableError
from mqclient.engine import address_server
from mqclient.engine.address_server import address_server_url, fetch_addresses
from mqclient.errors import AddressServerError
from mqclient.settings.checks import namesrv_addresses
from mqserver.embedded.standalone import Standalone
from mqserver.embedded.testing import free_port
from tests.address_list import AddressList
from tests.waiting import until


@pytest.fixture
def server() -> Iterator[AddressList]:
    with AddressList() as server:
        yield server


def test_the_url_is_made_as_rocketmq_makes_it() -> None:
    assert address_server_url("jmenv.tbsite.net", "nsaddr") == (
        "http://jmenv.tbsite.net:8080/rocketmq/nsaddr"
    )
    assert address_server_url("10.0.0.1:80", "x", "u") == "http://10.0.0.1:80/rocketmq/x-u?nofix=1"


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("10.0.0.1:9876;10.0.0.2:9876", ("10.0.0.1:9876", "10.0.0.2:9876")),
        ("\r\n  10.0.0.1:9876 ; ns.example:1\n\n", ("10.0.0.1:9876", "ns.example:1")),
    ],
)
def test_an_answer_is_trimmed_and_read(
    server: AddressList, body: str, found: tuple[str, ...]
) -> None:
    server.body = body
    assert fetch_addresses(server.url) == found
    assert server.asked == ["/rocketmq/nsaddr"]


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ("", 200, "'' is not host:port"),
        ("<html>maintenance</html>", 200, "is not host:port"),
        ("10.0.0.1:99999", 200, "is not an address"),
        (b"\xff\xfe", 200, "no text"),
        ("http://elsewhere/rocketmq/nsaddr", 200, "is not host:port"),
        ("OK", 200, "is not host:port"),
        ("10.0.0.1:9876", 503, "HTTP status 503"),
        (b"10.0.0.1:9876;" * 8192, 200, "over 65536 bytes"),
    ],
)
def test_a_bad_answer_is_an_error_that_says_why(
    server: AddressList, body: str | bytes, status: int, words: str
) -> None:
    server.body, server.status = body, status
    with pytest.raises(AddressServerError, match=words) as error:
        fetch_addresses(server.url)
    assert server.url in str(error.value)


def test_a_silent_server_is_waited_for_no_longer_than_told(server: AddressList) -> None:
    server.silent = True
    began = time.monotonic()
    with pytest.raises(AddressServerError, match="does not answer"):
        fetch_addresses(server.url, timeout=0.2)
    assert time.monotonic() - began < 10


def test_nobody_there_is_an_error() -> None:
    with pytest.raises(AddressServerError, match="does not answer"):
        fetch_addresses(f"http://127.0.0.1:{free_port()}/rocketmq/nsaddr")


def test_only_a_url_with_a_path_is_an_address_server() -> None:
    assert namesrv_addresses("http://h:8080/rocketmq/nsaddr") == ("http://h:8080/rocketmq/nsaddr",)
    assert namesrv_addresses("http://h:9876/") == ("h:9876",)
    with pytest.raises(ValueError, match="is not an address"):
        namesrv_addresses("http://h:8080/rocketmq/nsaddr;other:9876")


def test_a_producer_finds_its_way_and_keeps_it(
    server: AddressList, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(address_server, "FIRST_S", 0.0)
    monkeypatch.setattr(address_server, "PERIOD_S", 0.0)
    with Standalone() as mq, Producer(server.url) as producer:
        with pytest.raises(UnreachableError, match="is not host:port"):
            producer.send(Message(mq.topic(), b"x"))
        server.body = mq.namesrv
        producer.send(Message(mq.topic(), b"x"))
        server.body = "nonsense/"
        with caplog.at_level(logging.WARNING, "mqclient"):
            for _ in range(3):
                asked = len(server.asked)
                producer.send(Message(mq.topic(), b"x"))
                assert until(lambda asked=asked: len(server.asked) > asked)
    kept = [line for line in caplog.messages if "keeping" in line]
    assert len(kept) == 1, caplog.messages


def test_a_client_with_a_unit_asks_for_its_list(server: AddressList) -> None:
    with Standalone() as mq:
        server.body = mq.namesrv
        with Producer(server.url, client_id=ClientId(unit="u1")) as producer:
            producer.send(Message(mq.topic(), b"x"))
    assert server.asked == ["/rocketmq/nsaddr-u1?nofix=1"]


def test_every_command_takes_the_url(server: AddressList) -> None:
    with Standalone() as mq:
        server.body = mq.namesrv
        topic = mq.topic()
        for words in (
            ["mqadmin", "topicList", "-n", server.url],
            ["mqclient.cli", "bench", "produce", "-n", server.url, "-t", topic, "--count", "10"],
        ):
            command = [sys.executable, "-m", *words]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
            assert done.returncode == 0, done.stderr
    server.body = "nothing"
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 3, "unreachable"
    assert "is not host:port" in done.stderr and "Traceback" not in done.stderr
