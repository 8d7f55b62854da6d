"""A broker of the Rust plane over a real store, without the Python broker around it."""

from __future__ import annotations

from typing import Any

from mqserver.runtime.processor_api import Processor, Response
from mqstore import Store
from tests.server.conftest import Servers
from tests.server.raw import Raw, json_frame
from tests.waiting import until

DECLINED = 99
"""The code that the Python side of these tests answers."""
NATIVE = (10, 310, 320, 11, 14, 15, 30, 31, 34, 35, 38, 41, 42)

BROKER = {
    "permission": 6,
    "region_id": "DefaultRegion",
    "trace_on": True,
    "cluster_name": "DefaultCluster",
    "broker_name": "broker-a",
    "long_polling": True,
    "short_polling_ms": 1000,
    "max_message_bytes": 4 << 20,
    "start_accept_ms": 0,
    "reject_transaction": False,
    "store_host": "127.0.0.1:10911",
    "accepting": True,
}
TOPICS = {
    "T": (6, 4, 4, False, False),
    "Ordered": (6, 4, 4, False, True),
    "WriteOnly": (2, 4, 4, False, False),
    "OFFSET_MOVED_EVENT": (6, 1, 1, False, False),
    "%RETRY%g": (6, 1, 1, False, False),
}


class Broker:
    """A native broker over a store, and how to ask it."""

    def __init__(self, servers: Servers, store: Store, **settings: Any) -> None:
        self.declined: list[int] = []
        self.processors: dict[int, Processor] = {}
        self.store = store
        self.version = 1
        self.answers = dict.fromkeys(NATIVE, self._decline)
        self.listener, self.port = servers.start(
            self.answers, kind="broker", store=store, fast_port=0, **settings
        )
        self.fast_port = servers.fast_port
        self.publish("broker", {"": BROKER})
        self.publish("topics", TOPICS, replace=True)
        self.publish("groups", {"g": (True, True, 16, 1, 0, 1), "off": (False, True, 16, 1, 0, 1)})
        self.raw = servers.connect(self.port)

    def publish(self, table: str, rows: dict[str, Any], replace: bool = False) -> None:
        self.version += 1
        self.listener.publish(table, self.version, rows, replace)

    def _decline(self, request):
        if request.code in self.processors:
            return self.processors[request.code](request)
        self.declined.append(request.code)
        return Response(DECLINED)

    def send(self, body: bytes, raw: Raw | None = None, frame=json_frame, **fields: str):
        return (raw or self.raw).ask(frame(310, 1, send_fields(**fields), body))

    def pull(self, offset: int, raw: Raw | None = None, frame=json_frame, **fields: str):
        return (raw or self.raw).ask(frame(11, 2, pull_fields(offset, **fields)))

    def wait_readable(self, count: int, topic: str = "T", queue_id: int = 0) -> None:
        assert until(lambda: self.store.max_offset(topic, queue_id) >= count)


def send_fields(**changed: str) -> dict[str, str]:
    fields = {"a": "p", "b": "T", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1795248219385"}
    fields |= {"h": "0", "i": "", "j": "0", "k": "false", "m": "false"}
    return fields | changed


def pull_fields(offset: int, **changed: str) -> dict[str, str]:
    fields = {"consumerGroup": "g", "topic": "T", "queueId": "0", "queueOffset": str(offset)}
    fields |= {"maxMsgNums": "32", "sysFlag": "4", "commitOffset": "0", "subVersion": "0"}
    fields |= {"suspendTimeoutMillis": "1000", "subscription": "*", "expressionType": "TAG"}
    return fields | changed
