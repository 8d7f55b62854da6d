"""A broker and a NameServer that answer from a script: what the pull helper asks, no sockets."""

import json

from mqclient import retries
from mqclient.mock import MockTransport
from mqclient.spark.cluster import Cluster
from mqclient.spark.options import Options
from mqclient.wire import Frame
from mqclient.wire.bodies.route import BrokerData, ClusterInfo
from mqclient.wire.codes import RequestCode, ResponseCode
from mqstore.message import MessageQueue
from tests.format.golden import records

ROUTE = {
    "brokerDatas": [
        {"brokerAddrs": {"0": "172.17.0.2:10911"}, "brokerName": "broker-a", "cluster": "c"}
    ],
    "queueDatas": [
        {"brokerName": "broker-a", "perm": 6, "readQueueNums": 2, "writeQueueNums": 2},
    ],
}
CLUSTERS = ClusterInfo(
    {"broker-a": BrokerData("c", "broker-a", {0: "172.17.0.2:10911"})}, {"c": ["broker-a"]}
)
RECORD = records("store")[0][0]
QUEUE = MessageQueue("T", "broker-a", 0)


def record(queue_offset):
    return RECORD[:20] + queue_offset.to_bytes(8, "big") + RECORD[28:]


class Broker:
    """A queue that holds offsets [first, end) and gives a few at a time."""

    def __init__(self, first, end, at_once=32):
        self.first, self.end, self.at_once = first, end, at_once
        self.pulls = 0

    def scripts(self):
        return {
            RequestCode.GET_ROUTEINFO_BY_TOPIC: self.route,
            RequestCode.GET_BROKER_CLUSTER_INFO: lambda *_: Frame(0, {}, CLUSTERS.to_json()),
            RequestCode.GET_MIN_OFFSET: lambda *_: Frame(0, {"offset": str(self.first)}),
            RequestCode.GET_MAX_OFFSET: lambda *_: Frame(0, {"offset": str(self.end)}),
            RequestCode.PULL_MESSAGE: self.pull,
        }

    def route(self, address, request):
        if request.fields["topic"] != "T":
            return Frame(ResponseCode.TOPIC_NOT_EXIST)
        return Frame(0, {}, json.dumps(ROUTE).encode())

    def pull(self, address, request):
        self.pulls += 1
        offset, count = (int(request.fields[name]) for name in ("queueOffset", "maxMsgNums"))
        if offset < self.first:
            return self.answer(ResponseCode.PULL_OFFSET_MOVED, self.first)
        if offset >= self.end:
            return self.answer(ResponseCode.PULL_NOT_FOUND, offset)
        stop = min(offset + count, offset + self.at_once, self.end)
        return self.answer(0, stop, b"".join(map(record, range(offset, stop))))

    def answer(self, code, following, body=b""):
        fields = {"nextBeginOffset": following, "minOffset": self.first, "maxOffset": self.end}
        fields["suggestWhichBrokerId"] = 0
        return Frame(code, {name: str(value) for name, value in fields.items()}, body)


def open_cluster(broker, **options):
    options = Options.parse({"nameserver": "ns:9876", "topic": "T", **options})
    transport = MockTransport(broker.scripts())
    return Cluster(options, transport), transport


def use(monkeypatch, broker, changes=None):
    """Let readers meet a scripted broker; retries do not pause. changes: other scripts by code."""
    from mqclient.spark import progress, row_sizes, survey, task

    sent = []

    def open_cluster(options):
        transport = MockTransport(broker.scripts() | (changes or {}))
        transport.sent = sent
        return Cluster(options, transport)

    for module in (progress, row_sizes, survey, task):
        monkeypatch.setattr(module, "Cluster", open_cluster)
    monkeypatch.setattr(retries, "FIRST_PAUSE_S", 0)
    return sent
