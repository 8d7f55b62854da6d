"""Brokers of either maker that run one after the other on one store."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mqcommon import fastjson
from tests.interop.clusters import BROKER, Maker
from tests.interop.conf import SMALL_STORE
from tests.interop.java_servers import JavaBroker
from tests.interop.our_servers import OurBroker


class Turns:
    """Starts each broker on the store when the one before has ended.

    settings: on top of the small file sizes. store: the directory they share.
    """

    def __init__(
        self, home: Path, namesrv: str, settings: Mapping[str, object] | None = None
    ) -> None:
        self.store = home / "store"
        self._home, self._namesrv = home, namesrv
        self._settings = {**SMALL_STORE, **(settings or {})}
        self._running: list[JavaBroker | OurBroker] = []

    def start(self, maker: Maker) -> JavaBroker | OurBroker:
        """A broker of this maker, ready."""
        home = self._home / f"turn{len(self._running) + 1}"
        home.mkdir(parents=True)
        broker = BROKER[maker](home, self._namesrv, store=self.store, settings=self._settings)
        self._running.append(broker)
        return broker

    def state(self, name: str) -> Any:
        """The parsed content of a file in the store's config folder."""
        return fastjson.loads((self.store / "config" / name).read_bytes())

    def has(self, name: str) -> bool:
        """Whether there is such a file."""
        return (self.store / "config" / name).exists()

    def __enter__(self) -> Turns:
        return self

    def __exit__(self, *_: object) -> None:
        """No broker outlives its test."""
        for broker in self._running:
            broker.kill()
