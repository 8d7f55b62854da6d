"""What must be equal of two replies to a request of the admin tool."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from mqcommon import fastjson
from mqcommon.wire.codes import RequestCode as Code
from mqcommon.wire.frame import Frame
from mqstore import ReceivedMessage
from tests.e2e.recorded_admin import Exchange
from tests.e2e.replaying import masked, messages

OWN_SETTINGS = {
    "listenPort": "a free one", "namesrvAddr": "the same",
    "brokerIP1": "an address of the machine", "brokerIP2": "the same",
    "haListenPort": "listenPort + 1",
    "rocketmqHome": "a place", "storePathRootDir": "a place", "storePathCommitLog": "a place",
    "configStorePath": "a place", "kvConfigPath": "a place",
    "transactionCheckInterval": "shorter here", "transactionTimeOut": "longer here",
    "bitMapLengthConsumeQueueExt": "Java overwrites it at its start",
}  # fmt: skip
"""Settings whose values are not compared, with the reason."""
#: Numbers that are the machine's, a clock's, or of a history that is not recorded.
COUNTED = {"consumeTps", "avgpt", "sum", "tps", "dataVersion"}
OURS_ONLY = "enableActingMaster"
"""A field in our routes only, for clients of RocketMQ 5."""
TIME_MIN = 1_500_000_000_000
NUMBER = re.compile(r"-?\d+(\.\d+)?(E-?\d+)?")
UNIT = re.compile(r"N [KM]iB")


def shape(one: Exchange, reply: Frame, ours: Mapping[int, int] | None = None) -> dict[str, object]:
    """What must be equal.

    ours: for RocketMQ's reply, our physical offsets by its.
    """
    code = one.request.code
    fields = {
        name: _canonical_text(value)
        for name, value in reply.fields.items()
        if name not in ("indexLastUpdateTimestamp", "indexLastUpdatePhyoffset", "timestamp")
    }
    found = messages(one.request, reply)
    body: object
    if found:
        body = [_message(message) for message in found]
    elif code == Code.GET_BROKER_RUNTIME_INFO:
        body = _runtime(reply, one.reply)
    elif code in (Code.GET_BROKER_CONFIG, Code.GET_NAMESRV_CONFIG):
        body = _settings(reply, one.reply)
    else:
        body = _plain(reply.body, ours)
    return {
        "code": reply.code, "remark": masked(reply.remark or ""), "fields": fields,
        "body": body, "flag": reply.flag,
    }  # fmt: skip


def _plain(body: bytes, ours: Mapping[int, int] | None) -> object:
    if not body.startswith(b"{"):
        return body
    value = fastjson.loads(body)
    if ours is not None and isinstance(value, dict):
        for row in value.get("queueData", ()):
            row["physicOffset"] = ours.get(row["physicOffset"])
    return _canonical(value)


def unequal(place: str, theirs: object, ours: object) -> Iterator[str]:
    """The differences of two replies, one per line."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for name in sorted({*theirs, *ours}):
            yield from unequal(f"{place} {name}", theirs.get(name), ours.get(name))
    elif theirs != ours:
        yield f"   {place}: {theirs!r}, ours {ours!r}"


def _message(message: ReceivedMessage) -> object:
    return (
        message.topic, message.queue_id, message.queue_offset, message.stored_body, message.flag,
        message.sys_flag, message.reconsume_times,
        sorted((k, masked(v)) for k, v in message.properties.items()),
    )  # fmt: skip


def _settings(reply: Frame, theirs: Frame | None) -> object:
    """RocketMQ's keys with their values, except our own values; our reply has more keys."""
    ours, wanted = (
        dict(line.split("=", 1) for line in frame.body.decode().splitlines() if "=" in line)
        for frame in (reply, theirs or reply)
    )
    return {k: "own" if k in OWN_SETTINGS else v for k, v in ours.items() if k in wanted}


def _runtime(reply: Frame, theirs: Frame | None) -> object:
    """RocketMQ's names with their values, except numbers; our reply has more names."""
    tables = [
        {
            re.sub(r"(_/.*|_\d+)$", "_N", name): UNIT.sub("N B", NUMBER.sub("N", value))
            for name, value in json.loads(frame.body)["table"].items()
        }
        for frame in (reply, theirs)
        if frame is not None
    ]
    return {name: value for name, value in tables[0].items() if name in tables[-1]}


def _canonical_text(text: str) -> object:
    return _canonical(json.loads(text)) if text.startswith("{") else masked(text)


def _canonical(value: Any) -> Any:
    """Replace counted values by "N", and sort lists if their order has no meaning."""
    if isinstance(value, dict):
        return {
            k: "N" if k in COUNTED else _canonical(v) for k, v in value.items() if k != OURS_ONLY
        }
    if isinstance(value, list):
        return sorted((_canonical(v) for v in value), key=lambda v: json.dumps(v, sort_keys=True))
    if isinstance(value, str):
        return masked(value)
    return "TIME" if isinstance(value, int) and value > TIME_MIN else value
