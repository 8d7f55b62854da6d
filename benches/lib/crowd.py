"""A crowd of clients on plain sockets: more connections and held pulls than real clients could."""

from __future__ import annotations

import select
import socket
import struct
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Self

from benches.lib.servers import AUTO_CREATE_TOPIC
from mqcommon.wire.bodies.heartbeat import ConsumerData, HeartbeatData, SubscriptionData
from mqcommon.wire.codes import RequestCode
from mqcommon.wire.frame import Frame, decode, encode

SECONDS_MAX = 60.0
CONNECTIONS_PER_ADDRESS = 10_000
"""A source address has some 28,000 ports, and some of them are still closing."""
SUSPEND = 2
HOLD_MS = 600_000
_LENGTH = struct.Struct(">i")


@dataclass(frozen=True)
class Shape:
    """The numbers of connections, topics, queues, groups and held pulls.

    Connection n is member n // groups of group n % groups. Each member has `topics_each` topics of
    its own, and a held pull for each of their queues.
    """

    connections: int
    topics: int
    queues_each: int
    groups: int
    holds: int

    @property
    def topics_each(self) -> int:
        """Number of topics that a member reads."""
        return max(1, self.holds // self.connections // self.queues_each)

    def group(self, member: int) -> str:
        """The group of a connection."""
        return f"Crowd-{member % self.groups}"

    def topics_of_group(self, group: int) -> list[str]:
        """The topics that a group subscribes to."""
        members = -(-self.connections // self.groups)
        first, count = group * members * self.topics_each, members * self.topics_each
        return [topic_name((first + n) % self.topics) for n in range(count)]

    def topics_of(self, member: int) -> list[str]:
        """The topics that a connection reads."""
        place = member // self.groups * self.topics_each
        return self.topics_of_group(member % self.groups)[place : place + self.topics_each]


def topic_name(number: int) -> str:
    """The name of the crowd's topic `number`."""
    return f"Crowd-topic-{number:06}"


class Line:
    """A blocking connection that counts replies instead of keeping them."""

    def __init__(self, address: tuple[str, int], source: str) -> None:
        self.socket = socket.create_connection(address, SECONDS_MAX, (source, 0))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._rest = b""

    def frames(self) -> Iterable[Frame]:
        """The complete frames of one read."""
        data = self.socket.recv(1 << 18)
        if not data:
            raise ConnectionError("the broker closed a connection of the crowd")
        data = self._rest + data
        at = 0
        while len(data) - at >= 4:
            size = 4 + _LENGTH.unpack_from(data, at)[0]
            if len(data) - at < size:
                break
            yield decode(data[at : at + size])
            at += size
        self._rest = data[at:]


class Crowd:
    """All connections; closed at the end of the `with` block."""

    def __init__(self, broker: str, shape: Shape) -> None:
        host, _, port = broker.rpartition(":")
        self._address = (host, int(port))
        self._shape = shape
        self._lines: list[Line] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        for line in self._lines:
            line.socket.close()

    def connect(self) -> None:
        """Open every connection; each sends its heartbeat and waits for the reply."""
        for number in range(self._shape.connections):
            source = f"127.0.0.{1 + number // CONNECTIONS_PER_ADDRESS}"
            self._lines.append(Line(self._address, source))
        self.beat()

    def beat(self) -> None:
        """Send one heartbeat on every connection."""
        shape = self._shape
        ask_all(self._lines, lambda number: [self._heartbeat(number, shape)])

    @staticmethod
    def _heartbeat(number: int, shape: Shape) -> Frame:
        group = shape.group(number)
        topics = shape.topics_of_group(number % shape.groups)
        subscriptions = [SubscriptionData(topic, sub_version=1) for topic in topics]
        consumer = ConsumerData(group, subscription_data_set=subscriptions)
        data = HeartbeatData(f"127.0.0.1@crowd#{number}", consumer_data_set=[consumer])
        return Frame(int(RequestCode.HEART_BEAT), {}, data.to_json())

    def await_dispatch(self) -> None:
        """Wait until each topic's first message is in its queue, because a send is answered
        earlier."""

        def requests(number: int) -> list[Frame]:
            topics = self._shape.topics_of(number)
            return [self._pull(number, topic, queue=0, offset=0) for topic in topics]

        ask_all(self._lines, requests)

    def hold(self) -> int:
        """Let every connection wait for messages; returns the number of held pulls.

        Each connection's last request is not a pull. The broker answers it after it has processed
        the pulls before it, so a pull that was not held has been answered by then.
        """
        pulls: list[int] = []

        def requests(number: int) -> list[Frame]:
            found = list(self._pulls(number))
            pulls.append(len(found))
            last = {"topic": self._shape.topics_of(number)[0], "queueId": "0"}
            return [*found, Frame(int(RequestCode.GET_MAX_OFFSET), last)]

        ask_all(self._lines, requests, lambda sent: 1)
        return sum(pulls)

    def _pulls(self, number: int) -> Iterable[Frame]:
        for topic in self._shape.topics_of(number):
            for queue in range(self._shape.queues_each):
                end = int(queue == 0)  # the message that created the topic
                yield self._pull(number, topic, queue, end)

    def _pull(self, number: int, topic: str, queue: int, offset: int) -> Frame:
        fields = {"consumerGroup": self._shape.group(number), "topic": topic}
        fields |= {"queueId": str(queue), "queueOffset": str(offset), "maxMsgNums": "32"}
        fields |= {"sysFlag": str(SUSPEND), "commitOffset": "0", "subVersion": "1"}
        fields |= {"suspendTimeoutMillis": str(HOLD_MS), "expressionType": "TAG"}
        return Frame(int(RequestCode.PULL_MESSAGE), fields)


def ask_all(
    lines: list[Line],
    requests: Callable[[int], list[Frame]],
    expected: Callable[[int], int] = lambda sent: sent,
    accepts: Collection[int] = (0,),
) -> list[int]:
    """Send each line's requests and wait for the expected number of replies.

    Returns the code of each line's last reply. Raises RuntimeError for a code that is not accepted
    and for more replies than expected, TimeoutError if replies are missing.
    """
    waiting: dict[int, list[int]] = {}
    codes = [0] * len(lines)
    with select.epoll() as poll:
        for number, line in enumerate(lines):
            frames = requests(number)
            for opaque, frame in enumerate(frames):
                frame.opaque = opaque
            poll.register(line.socket.fileno(), select.EPOLLIN)
            waiting[line.socket.fileno()] = [number, expected(len(frames))]
            line.socket.sendall(b"".join(map(encode, frames)))
        while waiting:
            ready = poll.poll(SECONDS_MAX)
            if not ready:
                raise TimeoutError(f"{len(waiting)} connections wait for replies")
            for file, _ in ready:
                number, missing = waiting[file]
                for reply in lines[number].frames():
                    if not reply.is_response:
                        continue
                    if reply.code not in accepts:
                        raise RuntimeError(f"code {reply.code}: {reply.remark}")
                    codes[number] = reply.code
                    missing -= 1
                waiting[file][1] = missing
                if missing < 0:
                    raise RuntimeError(f"{-missing} requests were answered, not held")
                if not missing:
                    poll.unregister(file)
                    del waiting[file]
    return codes


def send_frame(topic: str, queues: int, body: bytes = b"hello") -> Frame:
    """A send request that creates its topic if it does not exist."""
    fields = {"a": "crowd", "b": topic, "c": AUTO_CREATE_TOPIC, "d": str(queues), "e": "0"}
    fields |= {"f": "0", "g": "1795248219385", "h": "0", "i": "", "j": "0", "k": "false"}
    return Frame(int(RequestCode.SEND_MESSAGE_V2), fields | {"m": "false"}, body)
