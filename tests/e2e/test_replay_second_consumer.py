"""The recorded pull consumer with binary headers, whose group had another member before."""

from __future__ import annotations

import json

from mqcommon.wire.codes import RequestCode as Code
from mqcommon.wire.frame import Frame, decode
from mqserver.embedded.standalone import Standalone
from tests.common.wire.golden import FOLDER, frames
from tests.e2e.replaying import Replay

SESSION = "pull-consumer-rocketmq"
OTHER, OTHERS_CONNECTION = "192.0.2.10@22420#3305390423604@STREAM", 3
"""This consumer had sent its heartbeat and a held pull before the recording began."""


def others_heartbeat() -> Frame:
    recorded = (decode(one.data) for one in frames(FOLDER / f"{SESSION}.jsonl.gz"))
    mine = next(f for f in recorded if f.code == Code.HEART_BEAT and not f.is_response and f.body)
    return Frame(
        Code.HEART_BEAT, {}, json.dumps({**json.loads(mine.body), "clientID": OTHER}).encode()
    )


def test_the_broker_says_what_rocketmqs_said(plane: str) -> None:
    letters = {"a": "p", "b": "WireTopic", "c": "TBW102", "d": "4", "e": "1", "f": "0", "g": "1"}
    never_read = [Frame(310, {**letters, "h": "0", "i": "", "m": "false"}, b"x")] * 6
    with Standalone(settings={"dataPlane": plane, "enablePropertyFilter": "true"}) as mq:
        replay = Replay(mq.broker_address, mq.wait_dispatched)
        replay.play(SESSION, {OTHERS_CONNECTION: [others_heartbeat(), *never_read]})
    assert not replay.differences, "\n".join(replay.differences)
    assert replay.compared > 30
