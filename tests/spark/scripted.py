"""A broker and a NameServer that answer from a script, without sockets or on loopback."""

import json
import socketserver
import threading

from mqclient.engine import query_retry
from mqclient.engine.mock import MockTransport
from mqclient.errors import ClientTimeout, UnreachableError
from mqcommon.message import MessageQueue
from mqcommon.wire import Frame
from mqcommon.wire.bodies.route import BrokerData, ClusterInfo
from mqcommon.wire.bodies.topics import TopicOffset, TopicStatsTable
from mqcommon.wire.codes import RequestCode, ResponseCode
from mqcommon.wire.frame import decode, encode
from mqpipeline.spark.topics.cluster import Cluster
from mqpipeline.spark.topics.options import Options
from tests.common.golden import records

QUEUE_DATA = {"brokerName": "broker-a", "perm": 6, "readQueueNums": 2, "writeQueueNums": 2}
CLUSTERS = ClusterInfo(
    {"broker-a": BrokerData("c", "broker-a", {0: "172.17.0.2:10911"})}, {"c": ["broker-a"]}
)
RECORD = records("store")[0][0]
QUEUE = MessageQueue("T", "broker-a", 0)


def record(queue_offset, queue_id=0):
    place = queue_id.to_bytes(4, "big") + RECORD[16:20] + queue_offset.to_bytes(8, "big")
    return RECORD[:12] + place + RECORD[28:]


class Broker:
    """A queue that holds offsets [first, end) and gives a few at a time."""

    def __init__(self, first, end, at_once=32):
        self.first, self.end, self.at_once = first, end, at_once
        self.pulls = 0
        self.address, self.slave = "172.17.0.2:10911", None

    def scripts(self):
        return {
            RequestCode.GET_ROUTEINFO_BY_TOPIC: self.route,
            RequestCode.GET_BROKER_CLUSTER_INFO: lambda *_: Frame(0, {}, CLUSTERS.to_json()),
            RequestCode.GET_MIN_OFFSET: lambda *_: Frame(0, {"offset": str(self.first)}),
            RequestCode.GET_MAX_OFFSET: lambda *_: Frame(0, {"offset": str(self.end)}),
            RequestCode.GET_TOPIC_STATS_INFO: self.stats,
            RequestCode.PULL_MESSAGE: self.pull,
        }

    def stats(self, address, request):
        """Both queues of the topic hold the same."""
        held = TopicOffset(self.first, self.end)
        queues = (MessageQueue(request.fields["topic"], "broker-a", number) for number in (0, 1))
        return Frame(0, {}, TopicStatsTable(dict.fromkeys(queues, held)).to_json())

    def route(self, address, request):
        if request.fields["topic"] != "T":
            return Frame(ResponseCode.TOPIC_NOT_EXIST)
        known = {"0": self.address, "1": self.slave}
        addresses = {broker_id: address for broker_id, address in known.items() if address}
        broker = {"brokerAddrs": addresses, "brokerName": "broker-a", "cluster": "c"}
        route = {"brokerDatas": [broker], "queueDatas": [QUEUE_DATA]}
        return Frame(0, {}, json.dumps(route).encode())

    def pull(self, address, request):
        self.pulls += 1
        offset, count = (int(request.fields[name]) for name in ("queueOffset", "maxMsgNums"))
        if offset < self.first:
            return self.answer(ResponseCode.PULL_OFFSET_MOVED, self.first)
        if offset >= self.end:
            return self.answer(ResponseCode.PULL_NOT_FOUND, offset)
        stop = min(offset + count, offset + self.at_once, self.end)
        return self.answer(0, stop, self.records(request, range(offset, stop)))

    def records(self, request, offsets):
        queue_id = int(request.fields["queueId"])
        return b"".join(record(offset, queue_id) for offset in offsets)

    def answer(self, code, following, body=b""):
        fields = {"nextBeginOffset": following, "minOffset": self.first, "maxOffset": self.end}
        fields["suggestWhichBrokerId"] = 0
        return Frame(code, {name: str(value) for name, value in fields.items()}, body)


def open_cluster(broker, **options):
    options = Options.parse({"namesrv": "ns:9876", "topic": "T", **options})
    transport = MockTransport(broker.scripts())
    return Cluster(options, transport), transport


class Served:
    """A Broker's scripts on a loopback socket, as NameServer and as broker; a context manager.

    A script may also return UnreachableError, which closes the connection, or ClientTimeout,
    which leaves the request without a reply.
    """

    def __init__(self, broker, changes=None):
        self.broker, self.changes = broker, changes or {}
        self.address = ""

    def __enter__(self):
        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        host, port = self._server.server_address
        self.address = f"{host}:{port}"
        self.broker.address = self.address
        threading.Thread(target=self._server.serve_forever, args=(0.02,)).start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()

    def options(self, **options):
        return Options.parse({"namesrv": self.address, "topic": "T", **options})

    def _handler(self):
        scripts = self.broker.scripts() | self.changes

        class Handler(socketserver.StreamRequestHandler):
            disable_nagle_algorithm = True

            def handle(self):
                while word := self.rfile.read(4):
                    request = decode(word + self.rfile.read(int.from_bytes(word, "big")))
                    outcome = scripts[request.code]("", request)
                    if isinstance(outcome, UnreachableError):
                        return
                    if not isinstance(outcome, ClientTimeout):
                        reply = request.reply(
                            outcome.code, outcome.remark, outcome.fields, outcome.body
                        )
                        self.wfile.write(encode(reply))

        return Handler


def use(monkeypatch, broker, changes=None):
    """Let readers meet a scripted broker; retries do not pause. changes: other scripts by code."""
    from mqpipeline.spark.topics import progress, row_sizes, survey

    sent = []

    def open_cluster(options):
        transport = MockTransport(broker.scripts() | (changes or {}))
        transport.sent = sent
        return Cluster(options, transport)

    for module in (progress, row_sizes, survey):
        monkeypatch.setattr(module, "Cluster", open_cluster)
    monkeypatch.setattr(query_retry, "FIRST_PAUSE_S", 0)
    return sent
