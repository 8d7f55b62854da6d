"""A reply as far as it must be equal: without times, addresses, versions and physical offsets."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Set
from dataclasses import dataclass, fields
from typing import Any

from mqcommon import fastjson
from mqcommon.wire.codes import RequestCode
from mqcommon.wire.frame import Frame
from mqstore import decode_messages
from tests.interop.differential.case import Case

MESSAGES = {
    RequestCode.PULL_MESSAGE, RequestCode.QUERY_MESSAGE, RequestCode.VIEW_MESSAGE_BY_ID,
}  # fmt: skip
SENT_MESSAGES = {RequestCode.CHECK_TRANSACTION_STATE, RequestCode.CONSUME_MESSAGE_DIRECTLY}
PROPERTIES = {RequestCode.GET_BROKER_CONFIG, RequestCode.GET_NAMESRV_CONFIG}
MASKS = [
    (re.compile(r"\b[0-9A-F]{8}[0-9A-F]{8}[0-9A-F]{16}\b"), "ID"),
    (re.compile(r"127\.0\.0\.1:\d+"), "ADDRESS"),
    (re.compile(r"\b1[5-9]\d{11}\b"), "TIME"),
    (re.compile(r"\d{4}-\d\d-\d\d[ #]\d\d:\d\d:\d\d([,:]\d{3})?"), "DATE"),
    (re.compile(r'(?<="counter":)\d+'), "0"),
    (re.compile(r"(?<=@)[0-9a-f]{5,8}\b"), "HASH"),
    (re.compile(r"/[\w/.-]+/conf/plain_acl\.yml"), "FILE"),
]
UNORDERED = {
    "topicList", "groupList", "consumerIdList", "brokerDatas", "queueDatas", "connectionSet",
    "tagsSet", "codeSet", "mqSet", "lockOKMQSet", "consumeTimeSpanSet", "consumeStatsList",
    "subscriptionDataSet", "data",
}  # fmt: skip
PHYSICAL = {"indexLastUpdatePhyoffset", "physicOffset", "commitLogOffset"}
RATES = {"counter", "delayTime", "consumeTps"}
JAVA_ERROR = re.compile(r"^(java|javax|io\.netty|org\.apache|com\.alibaba)\.[\w.$]+")


class Table(dict[str, str]):
    """Settings or figures; one server's must all be among the other's, which may have more."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Table) or not _nested(self.keys(), other.keys()):
            return False
        return all(_same_setting(key, self[key], other[key]) for key in self.keys() & other.keys())

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]


def _nested(one: Set[str], two: Set[str]) -> bool:
    return one <= two or two <= one


def _same_setting(key: str, one: str, two: str) -> bool:
    """Ports, paths and the plane differ between servers."""
    own = key.endswith("Port") or key == "dataPlane" or one.startswith("/") or two.startswith("/")
    return own or one == two


@dataclass(frozen=True)
class Outcome:
    """A server's reaction to a request. answer: "reply", "silence" or "closed".

    told: the request that another client got because of it; None if the case does not listen.
    """

    answer: str
    code: int | None = None
    remark: str | None = None
    fields: Mapping[str, str] | None = None
    body: object = None
    serialize: int | None = None
    told: object = None

    def parts_unlike(self, other: Outcome) -> list[str]:
        """Names of the parts that differ."""
        names = [part.name for part in fields(self)]
        return [name for name in names if getattr(self, name) != getattr(other, name)]


def masked(text: str) -> str:
    """The text without the parts that differ from run to run."""
    for pattern, word in MASKS:
        text = pattern.sub(word, text)
    return text


def told_of(request: Frame | None) -> object:
    """A request of the server's, masked."""
    if request is None:
        return "nothing"
    fields = {
        key: "LOOSE" if key in PHYSICAL else masked(value)
        for key, value in sorted(request.fields.items())
    }
    body: object = request.body.decode("utf-8", "replace")
    if request.code in SENT_MESSAGES and request.body:
        body = [_message(message) for message in decode_messages(request.body)]
    elif request.body.startswith(b"{"):
        body = _normal(fastjson.loads(request.body), "")
    return {
        "code": request.code, "flag": request.flag, "serialize": request.serialize,
        "remark": request.remark, "fields": fields, "body": body,
    }  # fmt: skip


def outcome_of(case: Case, reply: Frame) -> Outcome:
    """A reply, masked."""
    remark = None if reply.remark is None else masked(reply.remark).strip()
    values = {
        key: "LOOSE" if key in case.loose or key in PHYSICAL else masked(value)
        for key, value in reply.fields.items()
    }
    shown = values if reply.fields or reply.has_fields else None
    return Outcome("reply", reply.code, remark, shown, _body(case, reply), reply.serialize)


def _body(case: Case, reply: Frame) -> object:
    if not reply.body:
        return None
    if "body" in case.loose:
        return "LOOSE"
    if case.code in MESSAGES:
        left_out = {"queue_offset"} if "queueOffset" in case.loose else set()
        rows = [_message(message) for message in decode_messages(reply.body)]
        return [{k: v for k, v in row.items() if k not in left_out} for row in rows]
    text = reply.body.decode("utf-8", "replace")
    text = text.replace(',"enableActingMaster":false', "")  # for RocketMQ 5's clients
    if case.code in PROPERTIES:
        return Table(masked(line).split("=", 1) for line in text.splitlines() if "=" in line)
    if case.code == RequestCode.GET_BROKER_RUNTIME_INFO:
        return Table(dict.fromkeys(_figure_names(text), ""))
    try:
        return _normal(fastjson.loads(text), "")
    except ValueError:
        return masked(text)


def _figure_names(text: str) -> list[str]:
    """Names of the figures; their values are another test's (tests/broker/test_stats.py). Those
    of delay levels appear when the first message of a level is delivered.
    """
    names = (name.partition("/")[0] for name in json.loads(text)["table"])
    return [name for name in names if not name.startswith("scheduleMessageOffset_")]


def _message(message: Any) -> dict[str, object]:
    names = "topic queue_id queue_offset flag sys_flag reconsume_times stored_body store_size"
    values = {name: getattr(message, name) for name in names.split()}
    properties = {key: masked(value) for key, value in sorted(message.properties.items())}
    return {**values, "properties": properties}


def _normal(value: Any, key: str) -> Any:
    """Masked, and sorted where the order has no meaning."""
    if isinstance(value, dict):
        return {masked(k): _normal(v, k) for k, v in sorted(value.items())}
    if isinstance(value, list):
        items = [_normal(item, "") for item in value]
        return sorted(items, key=lambda item: json.dumps(item)) if key in UNORDERED else items
    if key in PHYSICAL or key in RATES:
        return "LOOSE"
    if isinstance(value, str):
        return masked(value)
    return "TIME" if isinstance(value, int) and 1.5e12 < value < 2e12 else value
