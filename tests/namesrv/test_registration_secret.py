"""`registrationSecret`: only brokers with the secret register, and it is never shown."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from mqcommon.wire.frame import Frame
from mqserver.config.broker_table import BROKER
from mqserver.config.load import load, pairs
from mqserver.config.loaded import Loaded, SettingsError
from mqserver.config.namesrv_table import NAMESRV
from mqserver.config.settings import broker_settings, namesrv_settings
from mqserver.embedded.in_process import InProcessServers
from mqserver.embedded.raw_client import ask
from mqserver.embedded.standalone import Standalone
from mqserver.namesrv.server import NameServer
from mqserver.registration.secret import AGE_MAX_MS, NONCE, SIGNATURE, TIME, sign
from mqserver.runtime.processor_api import Response
from tests.fakes import FakeRequest
from tests.namesrv.servers import SocketlessNames
from tests.namesrv.test_routes import registration, route

SECRET = "correct horse battery staple"
PUBLIC = "203.0.113.9:4000"


def signed(
    request: FakeRequest, secret: str = SECRET, at_ms: int | None = 1_000_000
) -> FakeRequest:
    """The request with a broker's signature. at_ms: the broker's clock."""
    fields = request.fields | sign(secret, request.code, request.fields, request.body, at_ms)
    return replace(request, fields=fields)


def code_and_remark(names: SocketlessNames, request: FakeRequest) -> tuple[int, str]:
    reply = names(request)
    assert isinstance(reply, Response)
    return reply.code, reply.remark or ""


@pytest.fixture
def names(tmp_path: Path) -> SocketlessNames:
    """Its clock stands at 1,000 s."""
    return SocketlessNames(tmp_path, registrationSecret=SECRET)


def test_a_signed_registration_is_taken_from_anywhere(names: SocketlessNames) -> None:
    assert code_and_remark(names, signed(registration(remote=PUBLIC))) == (0, "")
    assert route(names) is not None
    me = {"brokerName": "a", "brokerAddr": "127.0.0.1:10911", "clusterName": "C", "brokerId": "0"}
    version = FakeRequest(322, me, b'{"counter":1,"timestamp":5}', remote=PUBLIC)
    assert code_and_remark(names, signed(version)) == (0, "")
    assert code_and_remark(names, signed(FakeRequest(104, me, remote=PUBLIC))) == (0, "")
    assert route(names) is None


@pytest.mark.parametrize("code", [103, 104, 322])
def test_what_is_not_signed_is_refused_from_this_machine_too(
    names: SocketlessNames, code: int
) -> None:
    request = replace(registration(), code=code)
    refused, remark = code_and_remark(names, request)
    assert refused == 16
    assert "not signed; set registrationSecret on the broker too" in remark
    refused, remark = code_and_remark(names, signed(request, "another secret of a stranger"))
    assert refused == 16
    assert "the signature is wrong" in remark
    assert route(names) is None


def test_every_field_and_the_body_are_signed(names: SocketlessNames) -> None:
    good = signed(registration())
    forged = [
        *(replace(good, fields={**good.fields, name: "7"}) for name in good.fields),
        *(
            replace(good, fields={key: good.fields[key] for key in good.fields if key != name})
            for name in good.fields
        ),
        replace(good, fields={**good.fields, "more": "x"}),
        replace(good, body=good.body + b" "),
        replace(good, code=104),
        # The same bytes in other fields.
        replace(good, fields={**good.fields, "brokerName": "", "brokerNamea": ""}),
    ]
    for one in forged:
        assert code_and_remark(names, one)[0] == 16, one.fields
        assert route(names) is None
    assert code_and_remark(names, good)[0] == 0


def test_a_request_is_taken_once(names: SocketlessNames) -> None:
    recorded = signed(registration())
    assert code_and_remark(names, recorded)[0] == 0
    assert code_and_remark(names, recorded) == (
        16, "registration refused: the request was taken before",
    )  # fmt: skip
    for _ in range(100):
        names.time += 10
        again = signed(registration(), at_ms=int(names.time * 1000))
        assert code_and_remark(names, again)[0] == 0
        refused, remark = code_and_remark(names, recorded)
        assert refused == 16 and ("taken before" in remark or "clock" in remark)
    assert len(names.names.signatures._taken) <= 2 * AGE_MAX_MS / 10_000 + 1, "it forgets"


@pytest.mark.parametrize("difference", [AGE_MAX_MS + 1, -AGE_MAX_MS - 1])
def test_clocks_that_differ_are_named(names: SocketlessNames, difference: int) -> None:
    refused, remark = code_and_remark(names, signed(registration(), at_ms=1_000_000 - difference))
    assert refused == 16
    assert f"differ by {difference} ms" in remark and "set the clocks" in remark
    near = signed(registration(), at_ms=1_000_000 - difference + (1 if difference > 0 else -1))
    assert code_and_remark(names, near)[0] == 0


def test_a_signature_alone_does_not_admit_another_address(tmp_path: Path) -> None:
    names = SocketlessNames(tmp_path, registrationSecret=SECRET, brokerAllowAddresses="10.1.0.0/16")
    for remote, wanted in ((PUBLIC, 16), ("10.1.2.3:4000", 0)):
        assert code_and_remark(names, signed(registration(remote=remote)))[0] == wanted
    assert code_and_remark(names, registration(remote="10.1.2.3:4000"))[0] == 16


def loaded(server: str, **settings: str) -> Loaded:
    return load({"broker": BROKER, "namesrv": NAMESRV}[server], flags=pairs(settings, "test"))


def test_the_secret_is_shown_nowhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    shown = [
        repr(broker_settings(loaded("broker", registrationSecret=SECRET))),
        repr(namesrv_settings(loaded("namesrv", registrationSecret=SECRET))),
        repr(loaded("broker", registrationSecret=SECRET)),
    ]
    wanted = Standalone(
        tmp_path,
        settings={"registrationSecret": SECRET},
        namesrv_settings={"registrationSecret": SECRET},
    )
    running = InProcessServers(wanted.namesrv_settings, wanted.broker_settings)
    with caplog.at_level(logging.DEBUG):
        running.start()
    try:
        for address, ask_code, change in ((running.broker, 26, 25), (running.namesrv, 319, 318)):
            reply = ask(address, Frame(ask_code))
            assert b"registrationSecret=******\n" in reply.body
            guess = ask(address, Frame(change, body=f"registrationSecret={SECRET}".encode()))
            assert guess.code == 16, "not even the right one"
            shown += [reply.body.decode(), str(guess)]
        route_of = ask(running.namesrv, Frame(105, {"topic": "TBW102"}))
        assert route_of.code == 0, "they know each other"
        shown.append(str(route_of))
    finally:
        running.stop()
    shown += [caplog.text, *capfd.readouterr()]
    for kind in ("broker", "namesrv"):
        command = [sys.executable, "-m", "mqserver.cli", kind, "start", "-p",
                   "--set", f"registrationSecret={SECRET}"]  # fmt: skip
        shown.append(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        assert "registrationSecret=******" in shown[-1]
    assert not [text for text in shown if SECRET in text]
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path


@pytest.mark.parametrize("server", ["broker", "namesrv"])
def test_a_short_secret_is_refused_and_not_shown(server: str) -> None:
    read = broker_settings if server == "broker" else namesrv_settings
    with pytest.raises(SettingsError, match=r"registrationSecret=\*{6}: .*16 characters") as found:
        read(loaded(server, registrationSecret="tooshort123"))
    assert "tooshort123" not in str(found.value)


@pytest.mark.parametrize("given", ["", "another secret of a stranger"])
def test_a_broker_without_the_secret_says_why_it_is_not_known(tmp_path: Path, given: str) -> None:
    settings = {"listenPort": "0", "bindAddress": "127.0.0.1", "registrationSecret": SECRET,
                "kvConfigPath": str(tmp_path / "kv.json")}  # fmt: skip
    server = NameServer(load(NAMESRV, flags=pairs(settings, "test")))
    server.start()
    try:
        with Standalone(
            settings={"namesrvAddr": server.address, "registrationSecret": given}
        ) as mq:
            mq.topic("Unknown")
            away = mq.servers.server.away  # type: ignore[union-attr]
            assert "registrationSecret" in away[server.address]
            assert ask(server.address, Frame(105, {"topic": "Unknown"})).code == 17
            assert json.loads(ask(server.address, Frame(106)).body)["brokerAddrTable"] == {}
    finally:
        server.stop()


def test_a_registration_has_a_new_nonce_each_time() -> None:
    one, two = (sign(SECRET, 103, {}, b"") for _ in range(2))
    assert one[NONCE] != two[NONCE] and one[SIGNATURE] != two[SIGNATURE]
    assert {SIGNATURE, TIME, NONCE} == one.keys()
