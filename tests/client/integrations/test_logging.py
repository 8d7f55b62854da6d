"""`mqclient.logging`: records become messages, and nothing waits for them."""

from __future__ import annotations

import json
import logging
import logging.config
import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from mqclient import Retry
from mqclient.engine.mock import MockTransport
from mqclient.integrations.logging import RocketMQHandler
from mqcommon.wire import Frame, RequestCode
from mqserver.embedded.standalone import Standalone
from tests.client.cluster import Cluster
from tests.waiting import until


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(Logs=1)


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    found = logging.getLogger("tests.shipped")
    found.setLevel(logging.DEBUG)
    yield found
    for handler in list(found.handlers):
        found.removeHandler(handler)
        handler.close()


def add(logger: logging.Logger, transport: MockTransport, **options: object) -> RocketMQHandler:
    handler = RocketMQHandler("Logs", "h:1", transport=transport, **options)  # type: ignore[arg-type]
    logger.addHandler(handler)
    return handler


def bodies(mq: Standalone, topic: str) -> list[bytes]:
    return [message.body for message in mq.messages(topic)]


def test_records_are_json_with_the_level_as_tag(mq: Standalone, logger: logging.Logger) -> None:
    topic = mq.topic(queues=1)
    handler = RocketMQHandler(topic, mq.namesrv)
    logger.addHandler(handler)
    logger.info("hello %s", "Ada", extra={"order": 7, "thing": {1, 2}.__class__})
    try:
        1 / 0  # noqa: B018
    except ZeroDivisionError:
        logger.exception("it failed")
    handler.flush()
    assert until(lambda: len(mq.messages(topic)) == 2)
    info, failed = mq.messages(topic)
    assert (info.tags, failed.tags) == ("INFO", "ERROR")
    row = json.loads(info.body)
    assert row["message"] == "hello Ada"
    assert (row["level"], row["logger"], row["order"]) == ("INFO", "tests.shipped", 7)
    assert row["thing"] == "<class 'set'>"
    assert row["time"].endswith("+00:00")
    assert "ZeroDivisionError" in json.loads(failed.body)["exception"]
    assert handler.dropped == 0


def test_a_formatter_decides(mq: Standalone, logger: logging.Logger) -> None:
    topic = mq.topic(queues=1)
    handler = RocketMQHandler(topic, mq.namesrv, level="WARNING")
    handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
    logger.addHandler(handler)
    logger.info("not this")
    for number in range(250):
        logger.warning("number %d", number)
    handler.close()
    assert until(lambda: len(mq.messages(topic)) == 250)
    assert bodies(mq, topic) == [b"WARNING: number %d" % number for number in range(250)]


def test_a_program_that_ends_sends_the_rest(mq: Standalone) -> None:
    topic = mq.topic(queues=1)
    handler = {
        "class": "mqclient.integrations.logging.RocketMQHandler",
        "topic": topic,
        "namesrv": mq.namesrv,
    }
    config = {"version": 1, "handlers": {"rocketmq": handler}, "root": {"handlers": ["rocketmq"]}}
    script = (
        f"import logging, logging.config; logging.config.dictConfig({config!r})\n"
        "for i in range(50): logging.warning('line %d', i)\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
    assert until(lambda: len(mq.messages(topic)) == 50)


def test_a_full_queue_drops_counts_and_warns_once(
    cluster: Cluster, logger: logging.Logger, caplog: pytest.LogCaptureFixture
) -> None:
    sending, go_on = threading.Event(), threading.Event()

    def slow(address: str, request: Frame) -> Frame:
        sending.set()
        assert go_on.wait(60)
        return cluster.send(address, request)

    cluster.transport.scripts[int(RequestCode.SEND_MESSAGE_V2)] = slow
    handler = add(logger, cluster.transport, records_max=5)
    logger.info("first")
    assert sending.wait(60)
    for number in range(20):
        logger.info("number %d", number)  # returns although nothing is sent
    assert handler.dropped == 15
    go_on.set()
    handler.flush()
    warnings = [record for record in caplog.records if record.name == "mqclient.logging"]
    assert len(warnings) == 1
    assert "5 records wait to be sent" in warnings[0].getMessage()


def test_what_cannot_be_sent_is_dropped_and_nothing_recurses(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.transport.scripts[int(RequestCode.SEND_MESSAGE_V2)] = lambda _a, _r: Frame(
        1, remark="refused"
    )
    root = logging.getLogger()
    handler = add(root, cluster.transport, timeout=0.5, retry=Retry(max_retries=0))
    try:
        logging.getLogger("mqclient.anything").error("the client speaks")
        logging.getLogger("tests.other").error("lost")
        handler.flush()
        assert handler.dropped == 1, "its own warning about the drop was not shipped"
        sent = cluster.requests(RequestCode.SEND_MESSAGE_V2)
        assert all(b"lost" in frame.body for frame in sent)
    finally:
        root.removeHandler(handler)
        handler.close()
    handler.emit(logging.makeLogRecord({"msg": "after the close"}))
    assert handler.dropped == 2


def test_a_record_that_is_too_long_takes_no_other_along(
    cluster: Cluster, logger: logging.Logger
) -> None:
    handler = add(logger, cluster.transport, body_bytes_max=2000)
    handler.setFormatter(logging.Formatter("%(message)s"))
    sending, go_on = threading.Event(), threading.Event()

    def slow(address: str, request: Frame) -> Frame:
        sending.set()
        assert go_on.wait(60)
        return cluster.send(address, request)

    cluster.transport.scripts[int(RequestCode.SEND_MESSAGE_V2)] = slow
    logger.info("first")
    assert sending.wait(60)
    for text in ("short", "x" * 3000, "short too"):  # these wait, and become one batch
        logger.info(text)
    go_on.set()
    handler.flush()
    assert handler.dropped == 1
    sent = cluster.requests(RequestCode.SEND_MESSAGE_V2)
    assert [frame.body for frame in sent] == [b"first", b"short", b"short too"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_sends_too(mq: Standalone, logger: logging.Logger) -> None:
    topic = mq.topic(queues=1)
    script = (
        "import logging, os, sys; from mqclient.logging import RocketMQHandler\n"
        f"logging.getLogger().addHandler(RocketMQHandler({topic!r}, {mq.namesrv!r}))\n"
        "logging.warning('parent'); logging.getLogger().handlers[0].flush()\n"
        "pid = os.fork()\n"
        "logging.warning('child' if pid == 0 else 'parent again')\n"
        "if pid: sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    assert until(lambda: len(mq.messages(topic)) == 3)


def test_wrong_options_are_refused_at_once() -> None:
    with pytest.raises(ValueError, match="not an address"):
        RocketMQHandler("Logs", "h:x")
    with pytest.raises(ValueError, match="records_max"):
        RocketMQHandler("Logs", records_max=0)
    with pytest.raises(TypeError, match="unknown argument"):
        RocketMQHandler("Logs", retires=1)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="reserved"):
        RocketMQHandler("SCHEDULE_TOPIC_XXXX")
