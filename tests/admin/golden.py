"""A recorded cluster: answers requests with the frames that Java servers sent to Java's mqadmin."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from mqadmin.main import AdminMaker
from mqclient.admin import Admin
from mqclient.engine.mock import MockTransport
from mqclient.errors import UnreachableError
from mqcommon.wire.codes import RequestCode, ResponseCode
from mqcommon.wire.frame import Frame, decode

SERVERS = {"127.0.0.1:9876": "namesrv", "127.0.0.1:10911": "broker"}
GOLDEN = Path(__file__).parent.parent / "golden" / "cli"


def text(name: str) -> str:
    """What Java's mqadmin printed, without the first line, which is the command line."""
    return (GOLDEN / f"{name}.txt").read_text().partition("\n")[2]


class RecordedCluster(MockTransport):
    """Plays one recorded session. `asked` lists the requests in order.

    more: answers to requests that Java did not send, by code.
    """

    def __init__(self, session: str, more: Mapping[int, Frame] | None = None) -> None:
        super().__init__()
        self.asked: list[Frame] = []
        self._more = more or {}
        self._replies: dict[tuple[str, int, str], list[Frame]] = {}
        with gzip.open(GOLDEN / "frames.jsonl.gz", "rt") as lines:
            for row in map(json.loads, lines):
                if row["session"] == session:
                    request = decode(bytes.fromhex(row["request_hex"]))
                    reply = decode(bytes.fromhex(row["reply_hex"]))
                    self._replies.setdefault(_key(row["server"], request), []).append(reply)
        assert self._replies, f"no recorded session {session!r}"

    async def call(self, address: str, request: Frame, timeout: float) -> Frame:
        if address not in SERVERS:
            raise UnreachableError(f"nothing listens at {address}", address)
        server = SERVERS[address]
        self.asked.append(request)
        key = _key(server, request)
        if request.code == RequestCode.GET_ROUTEINFO_BY_TOPIC and key not in self._replies:
            return Frame(int(ResponseCode.TOPIC_NOT_EXIST))  # ours asks for routes more often
        if key not in self._replies and request.code in self._more:
            return self._more[request.code]
        if request.code in (RequestCode.HEART_BEAT, RequestCode.UNREGISTER_CLIENT):
            return request.reply(ResponseCode.SUCCESS)
        assert key in self._replies, f"Java did not ask this: {key}; it asked {list(self._replies)}"
        replies = self._replies[key]
        reply = replies.pop(0) if len(replies) > 1 else replies[0]  # the last one stays
        return replace(reply, opaque=request.opaque)


def connecting_to(cluster: MockTransport) -> AdminMaker:
    """Has `main` connect to a recorded cluster."""
    return lambda given: Admin(given.text("namesrvAddr"), transport=cluster)


IGNORED = {"bname", "ReqT", "suspendTimeoutMillis"}
"""Fields that say how a Java client is set up, or how long an idle pull waits."""
OF_ONE_QUERY = {"_UNIQUE_KEY_QUERY", "endTimestamp"}
"""Fields of a query for a key: the default of the first is false; the second may be now."""
OF_ONE_SEND = {"a", "e", "g", "i", "j", "k", "l", "m"}
"""Fields of a send that differ from run to run, or have their defaults: group, queue, unique id."""


def _key(server: str, request: Frame) -> tuple[str, int, str]:
    """Whether two requests have the same server, code and fields."""
    own = {RequestCode.SEND_MESSAGE_V2: OF_ONE_SEND, RequestCode.QUERY_MESSAGE: OF_ONE_QUERY}
    ignored = IGNORED | own.get(RequestCode(request.code), set())
    fields = {name: value for name, value in request.fields.items() if name not in ignored}
    return server, request.code, json.dumps(fields, sort_keys=True)
