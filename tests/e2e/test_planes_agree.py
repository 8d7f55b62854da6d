"""Both data planes answer the recorded session alike, in every field and every byte that lasts."""

from __future__ import annotations

import re

from mqcommon.wire.frame import Frame
from mqserver.embedded.raw_client import Probe
from mqserver.embedded.standalone import Standalone
from mqstore import decode_messages
from tests.e2e.test_replay_broker import RECORDING, plain_send

RANDOM = {"send, queue id -1", "send back ok", "get broker config", "runtime info"}
"""Values that differ between runs: random queues, delivery times, ports, clocks."""
MESSAGES = {11, 12, 33}
TIMES = re.compile(r'\b\d{13}\b|\d{4}-\d\d-\d\d#[\d:]+|(?<="delayTime":)\d+')
PORTS = re.compile(r"127\.0\.0\.1:\d+")
IDS = re.compile(r"7F000001[0-9A-F]{8}(?=[0-9A-F]{16})")


def masked(text: str) -> str:
    """Without times, ports, and the port inside message ids."""
    return PORTS.sub("ADDRESS", TIMES.sub("TIME", IDS.sub("", text)))


def comparable(request: Frame, reply: Frame) -> tuple[object, ...]:
    """A reply as both planes must give it."""
    body: object = masked(reply.body.decode("utf-8", "replace"))
    if request.code in MESSAGES and reply.code == 0:
        body = [
            (
                message.topic,
                message.queue_id,
                message.queue_offset,
                message.commit_log_offset,
                message.store_size,
                message.stored_body,
                {name: masked(value) for name, value in message.properties.items()},
                message.flag,
                message.sys_flag,
                message.reconsume_times,
            )
            for message in decode_messages(reply.body)
        ]
    fields = {name: masked(value) for name, value in reply.fields.items()}
    return reply.code, masked(reply.remark or ""), reply.has_fields, fields, body


def answers(plane: str) -> dict[str, tuple[object, ...]]:
    """One plane's answers to every request of the session, by position and label."""
    found: dict[str, tuple[object, ...]] = {}
    with Standalone(settings={"dataPlane": plane, "enablePropertyFilter": "true"}) as mq:
        mq.topic("WireTopic")
        with Probe(mq.broker_address, timeout=60) as probe:
            for queue_id in range(4):
                for _ in range(6):
                    probe.call(plain_send("WireTopic", queue_id))
            for position, (label, request, _) in enumerate(RECORDING):
                if label in RANDOM:
                    continue
                mq.wait_dispatched()
                reply = probe.call(
                    Frame(
                        request.code,
                        dict(request.fields),
                        request.body,
                        version=request.version,
                        language=request.language,
                        has_fields=request.has_fields,
                    )
                )
                found[f"{position} {label}"] = comparable(request, reply)
    return found


def test_every_reply_is_the_same() -> None:
    native, python = answers("native"), answers("python")
    differences = {
        label: (native[label], python[label]) for label in native if native[label] != python[label]
    }
    lines = [f"{label}:\n  {one}\n  {two}" for label, (one, two) in differences.items()]
    assert not differences, "\n".join(lines)
