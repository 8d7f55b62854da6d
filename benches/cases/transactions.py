"""Transactions per second over the wire: half messages and their commits."""

from __future__ import annotations

import re
import socket
import struct
import tempfile
import time
from pathlib import Path

from benches.lib.harness import Report, mode_of
from benches.lib.rows import Rows
from benches.lib.servers import Ours, broker_of
from mqcommon.names import AUTO_CREATE_TOPIC
from mqcommon.wire.codes import FrameFlag, RequestCode, SerializeType
from mqcommon.wire.frame import Frame, encode
from mqserver.embedded.raw_client import Probe

COUNT = {"smoke": 2_000, "large": 100_000}
"""Number of transactions of one round."""
ROUNDS = {"smoke": 1, "large": 3}
WINDOW = 256
"""Half messages in flight on the connection."""
RATE_MIN = 20_000.0
PREPARED, COMMIT = 4, 8
GROUP, TOPIC, BODY = "bench_transactions", "BenchTransactions", b"x" * 128
QUEUES = 4
RECEIVE_BYTES = 1 << 18
SECONDS_MAX = 60.0
METHOD = (
    "median of rounds; a round lasts from the first half message until the last committed message "
    "is in its queue; one connection of one Python process, 256 half messages in flight, "
    "commits oneway"
)
_LENGTH = struct.Struct(">i")
_PLACE = re.compile(rb'"msgId":"[0-9A-F]{16}([0-9A-F]{16})"|"queueOffset":"(\d+)"')


def main(smoke: bool = False) -> None:
    """Run the rounds and print the median rate."""
    mode = mode_of(smoke)
    report = Report("transactions", mode, METHOD)
    rows = Rows(report)
    rates, costs = [], []
    with (
        tempfile.TemporaryDirectory(prefix="mqbench-") as folder,
        Ours(Path(folder) / "ours", {}) as cluster,
    ):
        address = broker_of(cluster)
        for number in range(ROUNDS[mode.name]):
            before = cluster.cost.cpu_seconds()
            rates.append(run(address, f"{TOPIC}{number}", COUNT[mode.name]))
            used = cluster.cost.cpu_seconds() - before
            costs.append(used / COUNT[mode.name] * 1e6)
    rows.judge("transactions committed", sorted(rates)[len(rates) // 2], "per s", RATE_MIN, True)
    rows.note("CPU of the broker", sorted(costs)[len(costs) // 2], "us each")
    report.finish()


def run(address: str, topic: str, count: int) -> float:
    """Commit `count` transactions in a new topic; transactions per second."""
    host, _, port = address.rpartition(":")
    with (
        Probe(address, timeout=SECONDS_MAX) as probe,
        socket.create_connection((host, int(port)), SECONDS_MAX) as connection,
    ):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        probe.call(_new_topic(topic))
        halves = [half(topic, number) for number in range(count)]
        replies = Replies()
        began = time.monotonic()
        connection.sendall(b"".join(halves[:WINDOW]))
        answered, sent = 0, min(WINDOW, count)
        while answered < count:
            came = replies.take(connection.recv(RECEIVE_BYTES))
            answered += len(came)
            following = halves[sent : sent + len(came)]
            sent += len(following)
            connection.sendall(b"".join([*following, *(end(*place) for place in came)]))
        while _stored(probe, topic) < count:
            if time.monotonic() - began > SECONDS_MAX:
                raise TimeoutError(f"{topic}: {_stored(probe, topic)} of {count} are committed")
        return count / (time.monotonic() - began)


class Replies:
    """Splits a stream into replies to half messages."""

    def __init__(self) -> None:
        self._left = b""

    def take(self, data: bytes) -> list[tuple[int, int]]:
        """Queue offset and log offset of each half message whose reply is complete with these
        bytes."""
        if not data:
            raise ConnectionError("the broker closed the connection")
        data = self._left + data
        found, at = [], 0
        while at + 4 <= len(data):
            after = at + 4 + _LENGTH.unpack_from(data, at)[0]
            if after > len(data):
                break
            found.append(_place(data[at:after]))
            at = after
        self._left = data[at:]
        return found


def _place(reply: bytes) -> tuple[int, int]:
    physical = queue = None
    for match in _PLACE.finditer(reply):
        if match[1] is not None:
            physical = int(match[1], 16)
        else:
            queue = int(match[2])
    if physical is None or queue is None:
        raise RuntimeError(f"a half message was refused: {reply!r}")
    return queue, physical


def half(topic: str, number: int) -> bytes:
    """A prepared message, as Java's producer sends it."""
    key = f"C000020A12D04E0E2F2A{number:012X}"
    properties = f"TRAN_MSG\x01true\x02UNIQ_KEY\x01{key}\x02WAIT\x01true\x02PGROUP\x01{GROUP}"
    fields = {"a": GROUP, "b": topic, "c": AUTO_CREATE_TOPIC, "d": "4", "e": str(number % QUEUES)}
    fields |= {"f": str(PREPARED), "g": str(int(time.time() * 1000)), "h": "0"}
    fields |= {"i": properties, "j": "0", "k": "false", "m": "false"}
    return encode(Frame(int(RequestCode.SEND_MESSAGE_V2), fields, BODY))


def end(queue_offset: int, physical_offset: int) -> bytes:
    """The commit of a half message, oneway, as clients send it."""
    header = (
        b'{"code":37,"flag":%d,"language":"JAVA","opaque":0,"serializeTypeCurrentRPC":"JSON",'
        b'"version":407,"extFields":{"producerGroup":"%b","tranStateTableOffset":"%d",'
        b'"commitLogOffset":"%d","commitOrRollback":"%d","fromTransactionCheck":"false"}}'
    ) % (FrameFlag.ONEWAY, GROUP.encode(), queue_offset, physical_offset, COMMIT)
    kind = int(SerializeType.JSON) << 24
    return struct.pack(">iI", 4 + len(header), kind | len(header)) + header


def _new_topic(topic: str) -> Frame:
    fields = {"topic": topic, "defaultTopic": AUTO_CREATE_TOPIC, "perm": "6"}
    fields |= {"readQueueNums": str(QUEUES), "writeQueueNums": str(QUEUES)}
    fields |= {"topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
    return Frame(int(RequestCode.UPDATE_AND_CREATE_TOPIC), fields)


def _stored(probe: Probe, topic: str) -> int:
    """Messages in all queues of a topic."""
    code = int(RequestCode.GET_MAX_OFFSET)
    queues = ({"topic": topic, "queueId": str(number)} for number in range(QUEUES))
    return sum(int(probe.call(Frame(code, fields)).fields["offset"]) for fields in queues)
