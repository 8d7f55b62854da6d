"""The broker logs its start and stop, and each change of a topic or group with its client."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path

import pytest

from mqcommon.wire.frame import Frame
from mqserver.embedded.raw_client import Probe
from mqserver.embedded.standalone import Standalone

SEND = {"a": "p", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0", "m": "false"}
TOPIC = {"readQueueNums": "2", "writeQueueNums": "2", "perm": "6", "topicFilterType": "SINGLE_TAG"}
TOPIC |= {"topicSysFlag": "0", "order": "false", "defaultTopic": "TBW102"}


def lines(caplog: pytest.LogCaptureFixture, start: str) -> list[str]:
    return [text for text in caplog.messages if text.startswith(start)]


def test_start_recovery_and_stop_are_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mqserver.broker")
    with Standalone(tmp_path) as mq:
        name = mq.broker_settings["brokerName"]
        address = mq.broker_address
    assert lines(caplog, f"broker {name} starts in process ")
    assert lines(caplog, f"broker {name} accepts requests at {address}")
    assert lines(caplog, f"broker {name} is stopping")
    (ended,) = lines(caplog, f"broker {name} stopped after ")
    assert re.search(r": its store was closed in [\d.]+ s, its log ends at 0$", ended)
    (opened,) = lines(caplog, "store ")
    assert re.search(r" opened in [\d.]+ s: the log has bytes 0 to \d+$", opened)
    caplog.clear()
    Path(next(tmp_path.rglob("commitlog")).parent, "abort").touch()
    with Standalone(tmp_path):
        pass
    (opened,) = lines(caplog, "store ")
    assert "recovered from a crash of the last run in" in opened


def test_changes_of_topics_and_groups_are_logged_with_the_client(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "mqserver.broker")
    group = json.dumps({"groupName": "g", "retryQueueNums": 1, "retryMaxTimes": 16}).encode()
    with Standalone() as mq, Probe(mq.broker_address) as probe:
        for frame in (
            Frame(310, {**SEND, "b": "Sent"}, b"x"),
            Frame(17, {**TOPIC, "topic": "Made"}),
            Frame(17, {**TOPIC, "topic": "Made", "perm": "4"}),
            Frame(215, {"topic": "Made"}),
            Frame(200, {}, group),
            Frame(200, {}, group),
            Frame(207, {"groupName": "g", "removeOffset": "true"}),
        ):
            assert probe.call(frame).code == 0
    by = r"127\.0\.0\.1:\d+"
    wanted = [
        rf"topic Sent was created for a send from {by}: TopicConfig \[.*perm=RW-",
        rf"topic Made was created by {by}: TopicConfig \[.*perm=RW-",
        rf"topic Made was changed by {by}: TopicConfig \[.*perm=R--",
        rf"topic Made was deleted by {by}$",
        rf"group 'g' was created by {by}: .*retry_max_times=16",
        rf"group 'g' was changed by {by}: ",
        rf"group 'g' was deleted by {by}$",
    ]
    found = [line for line in caplog.messages if re.match(r"topic (Sent|Made)|group 'g'", line)]
    assert len(found) == len(wanted)
    for pattern, line in zip(wanted, found, strict=True):
        assert re.match(pattern, line), line
