"""Offsets, locks and ready-made bodies, answered by the Rust plane."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from mqserver.runtime.processor_api import Response
from tests.server.native import DECLINED
from tests.server.raw import Reply, json_frame


def test_offsets_are_committed_and_found(broker):
    ask = broker.raw.ask
    queue = {"consumerGroup": "g", "topic": "T", "queueId": "1"}
    assert ask(json_frame(14, 1, queue)).fields == {"offset": "0"}, "a young queue starts at 0"
    assert ask(json_frame(15, 2, queue | {"commitOffset": "7"}))[:5] == (0, 2, 1, None, {})
    assert ask(json_frame(14, 3, queue)).fields == {"offset": "7"}
    broker.pull(0, queueId="1", sysFlag="5", commitOffset="9")
    assert broker.store.committed("g", "T", 1) == 9
    broker.send(b"x", e="1")
    broker.wait_readable(1, queue_id=1)
    assert ask(json_frame(30, 4, {"topic": "T", "queueId": "1"})).fields == {"offset": "1"}
    assert ask(json_frame(31, 5, {"topic": "T", "queueId": "1"})).fields == {"offset": "0"}
    assert ask(json_frame(30, 6, {"topic": "Nope", "queueId": "0"})).fields == {"offset": "0"}
    assert ask(json_frame(15, 7, queue)).code == DECLINED
    assert ask(json_frame(30, 8, {"topic": "T", "queueId": "x"})).code == DECLINED


def test_locks_are_one_clients_at_a_time(broker):
    def body(client: str, *queues: int) -> bytes:
        names = [{"brokerName": "broker-a", "queueId": q, "topic": "T"} for q in queues]
        return json.dumps({"clientId": client, "consumerGroup": "g", "mqSet": names}).encode()

    def locked(client: str, *queues: int) -> list[int]:
        reply = broker.raw.ask(json_frame(41, 1, None, body(client, *queues)))
        assert reply.code == 0
        return [queue["queueId"] for queue in json.loads(reply.body)["lockOKMQSet"]]

    assert locked("one", 0, 1) == [0, 1]
    assert locked("two", 0, 1, 2) == [2]
    assert broker.raw.ask(json_frame(42, 2, None, body("one", 0))).code == 0
    assert locked("two", 0, 1) == [0]
    assert broker.listener.lock_batch("g", ("two", "127.0.0.1"), [("T", "broker-a", 1)]) == (
        [],
        None,
    )
    broker.listener.unlock_batch("g", "one", [("T", "broker-a", 1)])
    granted = [("T", "broker-a", 1)]
    assert broker.listener.lock_batch("g", ("two", "127.0.0.1"), granted) == (granted, None)
    assert broker.raw.ask(json_frame(41, 3, None, b"{")).code == DECLINED


def test_published_bodies_are_answered(broker):
    ask = json_frame(38, 1, {"consumerGroup": "g"})
    assert broker.raw.ask(ask).code == DECLINED
    broker.publish("answers", {"38|g": b'{"consumerIdList":["c@1"]}'})
    reply = broker.raw.ask(ask)
    assert (reply.code, reply.body) == (0, b'{"consumerIdList":["c@1"]}')
    broker.publish("answers", {"38|g": None})
    assert broker.raw.ask(ask).code == DECLINED


def heartbeat(ask: Callable[..., Reply], body: bytes, opaque: int = 1) -> int:
    return ask(json_frame(34, opaque, None, body)).code


def test_a_heartbeat_comes_to_python_once(broker, servers):
    taken: list[bytes] = []

    def take(request):
        taken.append(request.body)
        return Response()

    broker.processors = {34: take, 35: take}
    raw, other = broker.raw, servers.connect(broker.port)

    def beats(expected: int, *bodies: bytes, ask=raw.ask) -> None:
        taken.clear()
        assert [heartbeat(ask, body) for body in bodies] == [0] * len(bodies)
        assert len(taken) == expected

    beats(1, b"one", b"one", b"one")
    beats(1, b"one", ask=other.ask)
    ids = sorted(number for number, _, _ in broker.listener.connections())
    beats(2, b"two", b"one", b"one")
    assert heartbeat(raw.ask, b"one", 77) == 0
    assert broker.listener.silent(ids, 100.0) == [ids[1]], "the other's came to Python only"
    assert broker.listener.silent([*ids, 999], -1.0) == [*ids, 999]

    broker.publish("heartbeats", {str(ids[0]): None, "999": None})
    beats(0, b"one", ask=other.ask)
    beats(1, b"one", b"one")
    broker.publish("heartbeats", {}, replace=True)
    beats(2, b"one", b"two")
    beats(1, b"one", b"one", ask=other.ask)

    assert raw.ask(json_frame(35, 1, {"clientID": "c"})).code == 0
    beats(1, b"two", b"two")
    with pytest.raises(ValueError, match="no connection"):
        broker.publish("heartbeats", {"x": None})


def test_a_heartbeat_that_failed_comes_to_python_again(broker):
    codes = [1, 0]
    broker.processors[34] = lambda request: Response(codes.pop(0))
    assert [heartbeat(broker.raw.ask, b"x") for _ in range(3)] == [1, 0, 0]
    assert codes == []
