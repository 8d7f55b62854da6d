"""The NameServer's row: routes per second of a topic that so many brokers have."""

from __future__ import annotations

import selectors
import socket
import struct
import time
from contextlib import ExitStack
from dataclasses import dataclass

from benches.servers import Cluster
from benches.versus_java.rows import Figures, Measured, Session
from mqclient.wire import calls
from mqclient.wire.bodies.topics import (
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigSerializeWrapper,
)
from mqclient.wire.codes import RequestCode
from mqclient.wire.frame import Frame, encode
from mqclient.wire.headers.namesrv import RegisterBrokerRequestHeader
from mqserver.probe import Probe

CONNECTIONS = 4
WINDOW = 32
"""Requests in flight on each connection."""
RECEIVE_BYTES = 1 << 18
SILENCE_SECONDS_MAX = 10.0
TOPIC, OTHER = "BenchRoutes", "BenchOther"


@dataclass(frozen=True)
class Routes:
    """Every NameServer in turns; the topic's brokers only register, on a connection that stays."""

    brokers: int

    def run(self, session: Session) -> Measured:
        """Rounds in turns, all NameServers up all the time."""
        measured = Measured({kind.name: [] for kind in session.kinds})
        with ExitStack() as stack:
            clusters = []
            for kind in session.kinds:
                folder = session.new_folder(kind.name)
                clusters.append(cluster := stack.enter_context(kind(folder, {})))
                probe = Probe(cluster.namesrv)
                stack.callback(probe.close)
                register(probe, self.brokers)
                ask(cluster.namesrv, session.warmup_seconds)
            for _ in range(session.rounds):
                for cluster in clusters:
                    measured.rounds[cluster.name].append(_round(cluster, session.seconds))
        return measured


def register(probe: Probe, brokers: int) -> None:
    """Make `brokers` brokers known that have the topic, and nothing else."""
    # RocketMQ 5 refuses an unknown broker that registers one topic only: a change needs a whole.
    topics = TopicConfigSerializeWrapper({name: TopicConfig(name, 8, 8) for name in (TOPIC, OTHER)})
    body = RegisterBrokerBody(topics).encode()
    for number in range(brokers):
        header = RegisterBrokerRequestHeader(
            broker_name=f"broker-{number}",
            broker_addr=f"127.0.0.1:{10_000 + number}",
            cluster_name="DefaultCluster",
            ha_server_addr=f"127.0.0.1:{20_000 + number}",
            broker_id=0,
        )
        reply = probe.call(Frame(int(RequestCode.REGISTER_BROKER), header.to_fields(), body))
        if reply.code != 0:
            raise RuntimeError(f"registration refused: {reply.code} {reply.remark}")
    route = calls.route(TOPIC)
    known = route.result(probe.call(route.request))
    found = len(known.broker_datas) if known else 0
    if found != brokers:
        raise RuntimeError(f"{found} of {brokers} brokers in the route")


def ask(namesrv: str, seconds: float) -> float:
    """Ask for the route for so long; answers per second."""
    host, _, port = namesrv.rpartition(":")
    frame = encode(calls.route(TOPIC).request)
    answers = 0
    with ExitStack() as stack, selectors.DefaultSelector() as selector:
        for _ in range(CONNECTIONS):
            connection = stack.enter_context(socket.create_connection((host, int(port))))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.sendall(frame * WINDOW)
            selector.register(connection, selectors.EVENT_READ, Counter())
        started = now = time.monotonic()
        while now - started < seconds:
            ready = selector.select(SILENCE_SECONDS_MAX)
            if not ready:
                raise TimeoutError(f"{namesrv}: no answer in {SILENCE_SECONDS_MAX} s")
            for key, _ in ready:
                came = key.data.count(key.fileobj.recv(RECEIVE_BYTES))
                answers += came
                key.fileobj.sendall(frame * came)
            now = time.monotonic()
    return answers / (now - started)


class Counter:
    """Counts the frames of a stream by their lengths."""

    def __init__(self) -> None:
        self._left = 0
        self._head = b""

    def count(self, data: bytes) -> int:
        """Frames that end within these bytes, which follow those given before."""
        if not data:
            raise ConnectionError("the NameServer closed the connection")
        ended, at = 0, 0
        while at < len(data):
            if self._left == 0:
                piece = data[at : at + 4 - len(self._head)]
                self._head += piece
                at += len(piece)
                if len(self._head) < 4:
                    break
                (self._left,) = struct.unpack(">i", self._head)
                self._head = b""
            step = min(self._left, len(data) - at)
            self._left -= step
            at += step
            ended += self._left == 0
        return ended


def _round(cluster: Cluster, seconds: float) -> Figures:
    cpu_before = cluster.namesrv_cost.cpu_seconds()
    rate = ask(cluster.namesrv, seconds)
    cpu = cluster.namesrv_cost.cpu_seconds() - cpu_before
    return {
        "routes_per_s": rate,
        "namesrv_cpu_us_per_route": cpu / (rate * seconds) * 1e6,
        "namesrv_anonymous_mb": cluster.namesrv_cost.anonymous_mb(),
    }
