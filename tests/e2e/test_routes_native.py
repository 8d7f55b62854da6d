"""Ready route bodies are served by the compiled plane, and never older than a change."""

from __future__ import annotations

import json

from mqcommon.wire.frame import Frame
from mqserver.embedded.in_process import InProcessServers
from mqserver.embedded.raw_client import Probe
from mqserver.embedded.standalone import Standalone


def served(mq: Standalone) -> tuple[int, int]:
    """Route requests answered natively, and by Python."""
    assert isinstance(mq.servers, InProcessServers)
    assert mq.servers.names is not None
    counters = mq.servers.names.counters()
    return counters.get("native.105", 0), counters.get("python.105", 0)


def test_only_the_first_request_of_a_style_meets_python() -> None:
    with Standalone() as mq, Probe(mq.namesrv) as probe:
        topic = mq.topic()
        before = served(mq)
        bodies = {probe.call(Frame(105, {"topic": topic})).body for _ in range(5)}
        after = served(mq)
    assert len(bodies) == 1
    assert (after[0] - before[0], after[1] - before[1]) == (4, 1)


def test_the_two_styles_are_kept_apart() -> None:
    with Standalone() as mq, Probe(mq.namesrv) as probe:
        topic = mq.topic()
        for _ in range(2):
            legacy = probe.call(Frame(105, {"topic": topic}, version=317)).body
            standard = probe.call(Frame(105, {"topic": topic})).body
            asked = {"topic": topic, "acceptStandardJsonOnly": "true"}
            assert probe.call(Frame(105, asked, version=317)).body == standard
            assert b"{0:" in legacy
            assert json.loads(standard)["brokerDatas"][0]["brokerAddrs"].keys() == {"0"}


def test_a_change_is_seen_at_once() -> None:
    with Standalone() as mq, Probe(mq.namesrv) as probe:
        topic = mq.topic(queues=2)
        for queues in range(3, 12):
            assert probe.call(Frame(105, {"topic": topic})).code == 0
            mq.topic(topic, queues=queues)
            route = json.loads(probe.call(Frame(105, {"topic": topic})).body)
            assert route["queueDatas"][0]["writeQueueNums"] == queues
        assert probe.call(Frame(205, {"brokerName": "broker-a"})).code == 0
        route = json.loads(probe.call(Frame(105, {"topic": topic})).body)
        assert route["queueDatas"][0]["perm"] == 4
