from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mqserver.runtime.listener import Event, Listener, not_supported
from mqserver.runtime.processor_api import Family, Processor
from mqstore import Store
from tests.server.cold import SETTINGS, cold_store
from tests.server.raw import DEADLINE, Raw
from tests.waiting import answer_of

if TYPE_CHECKING:
    from tests.server.native import Broker


class Servers:
    """Starts listeners and stops them after the test."""

    def __init__(self) -> None:
        self._stops: list[Callable[[], None]] = []
        self.events: list[Event] = []
        self.fast_port: int | None = None
        self.event = threading.Condition()

    def start(
        self,
        processors: Mapping[int, Processor],
        *,
        kind: str = "namesrv",
        capacity: int = 100,
        threads: int = 2,
        store: Any = None,
        default: bool = True,
        also: Sequence[Family] = (),
        **settings: Any,
    ) -> tuple[Listener, int]:
        """Start a listener with the families "all" and `also`; return it and its port."""
        listener = Listener(
            {"kind": kind, "host": "127.0.0.1", "port": 0, **settings},
            store,
            processors=processors,
            families={one.name: one for one in (Family("all", capacity, threads), *also)},
            code_families=dict.fromkeys(processors, "all"),
            default=("all", not_supported) if default else None,
            on_event=self._on_event,
        )
        port, self.fast_port = listener.start()
        self._stops.append(lambda: listener.stop(5.0))
        return listener, port

    def connect(self, port: int) -> Raw:
        """A connection that is closed after the test."""
        raw = Raw(port)
        self._stops.append(raw.close)
        return raw

    def wait_event(self, kind: str) -> Event:
        """The first event of that kind."""

        def found() -> Event | None:
            return next((event for event in self.events if event.kind == kind), None)

        with self.event:
            assert self.event.wait_for(lambda: found() is not None, DEADLINE), kind
            event = found()
            assert event is not None
            return event

    def _on_event(self, event: Event) -> None:
        with self.event:
            self.events.append(event)
            self.event.notify_all()

    def stop(self) -> None:
        for stop in reversed(self._stops):
            stop()


def wait_counted(listener: Listener, *, waiting: int | None = None, **least: int) -> None:
    """Wait until each of these counters is at least the given value; write "." in a name as "_".

    waiting: most requests that wait for Python.
    """

    def is_enough(counted: dict[str, int]) -> bool:
        enough = all(counted.get(n.replace("_", "."), 0) >= least[n] for n in least)
        return enough and (waiting is None or counted["waiting.all"] <= waiting)

    answer_of(listener.counters, is_enough)


@pytest.fixture
def servers() -> Iterator[Servers]:
    started = Servers()
    yield started
    started.stop()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store", SETTINGS, create=True) as opened:
        yield opened


@pytest.fixture
def broker(servers: Servers, store: Store) -> Iterator[Broker]:
    yield from _broker(servers, store)


@pytest.fixture
def cold_broker(servers: Servers) -> Iterator[Broker]:
    """Over a store whose first messages are not in memory."""
    with cold_store() as store:
        yield from _broker(servers, store)


def _broker(servers: Servers, store: Store) -> Iterator[Broker]:
    from tests.server.native import Broker

    started = Broker(servers, store)
    yield started
    started.raw.close()
    started.listener.stop(5.0)  # before the store closes
