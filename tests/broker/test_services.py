"""Background threads survive a failure, and `/ready` and `/metrics` report it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mqcommon.wire.frame import Frame, encode
from mqserver.broker.broker import Broker
from mqserver.config.broker_table import BROKER
from mqserver.config.load import load, pairs
from mqserver.config.namesrv_table import NAMESRV
from mqserver.embedded.raw_client import Probe
from mqserver.namesrv.server import NameServer
from mqserver.runtime.services import Services
from mqserver.runtime.watch import Watch
from tests.broker.test_health import LISTEN, read
from tests.waiting import until


def test_a_round_that_fails_is_noted_until_one_succeeds() -> None:
    services = Services()
    with services.round("good"):
        pass
    assert services.unready() is None
    for _ in range(2):
        with services.round("bad"):
            raise OverflowError("too big")
    assert services.failures() == {"bad": (2, "OverflowError: too big")}
    assert services.unready() == "bad fails: OverflowError: too big"
    services.follow(lambda: {"mq-delay": (1, "panicked: x"), "mq-clean": (3, None)})
    assert services.unready() == "bad fails: OverflowError: too big; mq-delay fails: panicked: x"
    with services.round("bad"):
        pass
    assert services.failures()["bad"] == (2, None)
    assert services.unready() == "mq-delay fails: panicked: x"


class Faulty:
    """Replaces a function: it fails while `is_broken` is true, and counts its calls."""

    def __init__(self, real: Callable[..., Any]) -> None:
        self.real = real
        self.is_broken = True
        self.called = threading.Semaphore(0)

    def __call__(self, *args: Any, **values: Any) -> Any:
        self.called.release()
        if self.is_broken:
            raise RuntimeError("broken for the test")
        return self.real(*args, **values)

    def wait(self, times: int) -> None:
        for _ in range(times):
            assert self.called.acquire(timeout=60), "the thread does not come back"


def ready_and_failures(port: int | None, service: str) -> tuple[int, str, float]:
    status, text = read(port, "/ready")
    lines = read(port, "/metrics")[1].splitlines()
    mine = f'service="{service}"'
    counts = [line for line in lines if mine in line and "service_failures_total" in line]
    return status, text, float(counts[0].rpartition(" ")[2]) if counts else 0


def check(server: Any, service: str, faulty: Faulty, times: int = 2) -> None:
    """A failing service is reported, keeps running, and is reported as working again."""
    faulty.wait(times)
    port = server.metrics_port
    assert until(lambda: ready_and_failures(port, service)[0] == 503)
    _, text, count = ready_and_failures(port, service)
    assert f"{service} fails: " in text
    assert "broken for the test" in text
    assert count >= 1
    faulty.is_broken = False
    assert until(lambda: read(port, "/ready") == (200, "ready\n"))


def new_broker(root: Path, **settings: str) -> Broker:
    flags = {**LISTEN, "storePathRootDir": str(root), "brokerName": "b", **settings}
    flags |= {"mappedFileSizeCommitLog": str(1 << 20), "fastPortEnable": "false"}
    return Broker(load(BROKER, flags=pairs(flags, "t")))


def new_nameserver(root: Path, **settings: str) -> NameServer:
    flags = {**LISTEN, "kvConfigPath": f"{root}/kv.json", **settings}
    return NameServer(load(NAMESRV, flags=pairs(flags, "t")))


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """A running broker without a NameServer."""
    started = new_broker(tmp_path, transactionCheckInterval="20")
    started.start()
    yield started
    started.stop()


def test_the_scan_of_a_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mqserver.broker.broker.CLIENT_SCAN_S", 0.02)
    broker = new_broker(tmp_path)
    faulty = Faulty(broker.close_silent)
    monkeypatch.setattr(broker, "close_silent", faulty)
    broker.start()
    try:
        check(broker, "silent-clients", faulty)
    finally:
        broker.stop()


def test_the_saver_of_a_broker(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    saver = broker.context.saver
    faulty = Faulty(saver._save)
    monkeypatch.setattr(saver, "_save", faulty)
    saver.mark("topics.json")
    check(broker, "state-saver", faulty)


def test_the_checks_of_transactions(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    assert broker._checks is not None
    faulty = Faulty(broker._checks.run_once)
    monkeypatch.setattr(broker._checks, "run_once", faulty)
    check(broker, "transaction-check", faulty)


def test_the_events_of_a_server(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    assert broker._listener is not None
    faulty = Faulty(lambda _event: None)
    monkeypatch.setattr(broker._listener, "_on_event", faulty)
    port = broker.port

    def come_and_go() -> None:
        with Probe(f"127.0.0.1:{port}"):
            pass

    come_and_go()
    faulty.wait(1)
    assert until(lambda: "mq-events fails" in read(broker.metrics_port, "/ready")[1])
    faulty.is_broken = False
    come_and_go()
    assert until(lambda: read(broker.metrics_port, "/ready")[0] == 200)


def test_the_registrar(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """If the event loop ends, a new loop continues with the registrations."""
    from mqserver.registration.registrar import Registrar

    monkeypatch.setattr("mqserver.registration.registrar.RESTART_S", 0.02)
    faulty = Faulty(Registrar._main)
    monkeypatch.setattr(Registrar, "_main", lambda registrar: faulty(registrar))
    names = new_nameserver(tmp_path)
    names.start()
    broker = new_broker(tmp_path / "store", namesrvAddr=names.address)
    starting = threading.Thread(target=broker.start)
    starting.start()
    try:
        faulty.wait(2)
        assert until(lambda: broker.metrics_port and "registrar fails" in read_ready(broker))
        assert until(lambda: ready_and_failures(broker.metrics_port, "registrar")[2] >= 2)
        assert read_ready(broker) == "registrar fails: RuntimeError: broken for the test\n"
        faulty.is_broken = False
        assert until(lambda: "b" in names.names.routes.clusters().broker_addr_table)
        starting.join(60)
        assert until(lambda: read_ready(broker) == "ready\n")
        count = ready_and_failures(broker.metrics_port, "registrar")[2]
        assert logged(caplog, "registrar failed; it will try again") == [logging.ERROR] * int(count)
        assert until(lambda: logged(caplog, "registrar works again") == [logging.WARNING])
    finally:
        starting.join(60)
        broker.stop()
        names.stop()


def logged(caplog: pytest.LogCaptureFixture, message: str) -> list[int]:
    """The levels of the log lines with this text."""
    return [one.levelno for one in caplog.records if one.getMessage() == message]


def read_ready(broker: Broker) -> str:
    return read(broker.metrics_port, "/ready")[1]


def test_the_scan_of_a_nameserver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = new_nameserver(tmp_path, scanNotActiveBrokerInterval="1000")
    faulty = Faulty(server.names.routes.expire)
    monkeypatch.setattr(server.names.routes, "expire", faulty)
    server.start()
    try:
        check(server, "dead-brokers", faulty, times=1)
    finally:
        server.stop()


def test_a_watch_of_files() -> None:
    services = Services()
    faulty = Faulty(lambda: None)
    watch = Watch("watch-under-test", faulty, 0.01, services)
    watch.start()
    faulty.wait(2)
    assert "broken for the test" in (services.unready() or "")
    faulty.is_broken = False
    assert until(lambda: services.unready() is None)
    watch.stop()


class PanicException(BaseException):
    """PyO3's exception for a panic of the compiled core."""


def test_a_panic_of_the_core_ends_no_service() -> None:
    services = Services()
    with services.round("bad"):
        raise PanicException("index out of range")
    assert services.failures()["bad"] == (1, "PanicException: index out of range")
    with pytest.raises(KeyboardInterrupt), services.round("bad"):
        raise KeyboardInterrupt


def test_threads_that_take_requests_go_on(broker: Broker) -> None:
    listener = broker._listener
    assert listener is not None
    faulty = Faulty(listener._server.next)

    real: Any = listener._server

    class Broken:
        next = faulty

        def __getattr__(self, name: str) -> Any:
            return getattr(real, name)

    listener._server = Broken()  # type: ignore[assignment]
    try:
        poke(broker.port)
        faulty.wait(2)
        assert until(lambda: any("broken for" in why for _, why in broken(broker)))
        faulty.is_broken = False
    finally:
        listener._server = real
    assert until(lambda: not broken(broker))


def poke(port: int) -> None:
    """Send requests and read no replies, so that each thread of the family runs another round."""
    with Probe(f"127.0.0.1:{port}") as probe:
        for opaque in range(8):
            probe.write(encode(Frame(28, {}, opaque=opaque)))


def broken(broker: Broker) -> list[tuple[int, str]]:
    found = broker.services.failures().values()
    return [(count, why) for count, why in found if why]
