"""A NameServer's state and processors without sockets."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from mqserver.config.load import load, pairs
from mqserver.config.loaded import Loaded
from mqserver.config.namesrv_table import NAMESRV
from mqserver.config.online import OnlineSettings
from mqserver.config.settings import namesrv_settings
from mqserver.namesrv.bounds import Bounds
from mqserver.namesrv.kv import KeyValues
from mqserver.namesrv.processors import Names, processors_of, silence
from mqserver.namesrv.routes import Routes
from mqserver.registration.secret import SignatureCheck
from mqserver.runtime.guard import Guard, guarded
from mqserver.runtime.processor_api import Reply
from tests.fakes import FakeRequest, answer


class SocketlessNames:
    """Processors over real state; time stands still until moved."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.time = 1000.0
        self.answers: dict[str, bytes] = {}
        self.changed_topics: list[str] = []
        loaded = load(
            NAMESRV, flags=pairs({"kvConfigPath": str(folder / "kv.json"), **settings}, "--set")
        )
        frozen = namesrv_settings(loaded)
        admin = Guard("adminAllowAddresses", frozen.admin_allow_addresses)
        self.names = Names(
            settings=frozen,
            routes=Routes(
                lambda: self.time,
                frozen.broker_expiry / 1000,
                self._forget,
                Bounds(lambda: self.names.settings, lambda host: admin.trusts(f"{host}:0")),
            ),
            kv=KeyValues(folder / "kv.json"),
            online=OnlineSettings(
                loaded,
                folder / "config/namesrv.properties",
                self._changed,
                namesrv_settings,
                lambda: int(self.time * 1000),
            ),
            brokers=Guard("brokerAllowAddresses", frozen.broker_allow_addresses),
            signatures=SignatureCheck(frozen.registration_secret, lambda: int(self.time * 1000)),
            publish=self._publish,
            is_open=lambda _connection: True,
        )
        self.processors = guarded(processors_of(self.names), admin)

    def __call__(self, request: FakeRequest) -> Reply:
        return answer(self.processors.get(request.code, silence), request)

    def _publish(self, style: str, topic: str, body: bytes) -> None:
        self.answers[f"105|{style}|{topic}"] = body

    def _forget(self, topics: Iterable[str]) -> None:
        self.changed_topics += topics
        for topic in topics:
            for style in ("std", "legacy"):
                self.answers.pop(f"105|{style}|{topic}", None)

    def _changed(self, loaded: Loaded) -> None:
        self.names.settings = namesrv_settings(loaded)
