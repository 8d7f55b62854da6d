"""Parses state files of rows by name; rows that cannot be used are set aside, the others kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

from mqcommon import fastjson
from mqcommon.wire.bodies.base import Body, BodyError
from mqcommon.wire.bodies.common import DataVersion
from mqcommon.wire.bodies.filters import ConsumerFilterData
from mqcommon.wire.bodies.groups import GroupConfig, SubscriptionGroupWrapper
from mqcommon.wire.bodies.route_bounds import QUEUES_MAX, queues_flaw
from mqcommon.wire.bodies.topics import TopicConfig, TopicConfigSerializeWrapper
from mqcommon.wire.headers.base import named

Content = TypeVar("Content")
Row = TypeVar("Row", bound=Body)

PERM_MAX = 15
"""All permission bits that RocketMQ knows: priority, read, write, inherit."""
FILTER_TYPES = ("SINGLE_TAG", "MULTI_TAG")

Aside = tuple[str, str, str]
"""An entry that cannot be used: its name, the error, its text."""


class Read(NamedTuple, Generic[Content]):
    """The usable content of a file, and the entries that cannot be used."""

    content: Content
    aside: list[Aside]


def read_topics(text: bytes) -> Read[TopicConfigSerializeWrapper]:
    """Parse `topics.json`. Raises BodyError if nothing in it can be used."""
    plain = _object(text)
    found = _rows(plain, "topicConfigTable", TopicConfig, _topic_flaw)
    version = _version(plain, found.aside)
    return Read(TopicConfigSerializeWrapper(found.content, version), found.aside)


def read_groups(text: bytes) -> Read[SubscriptionGroupWrapper]:
    """Parse `subscriptionGroup.json`. Raises BodyError if nothing in it can be used."""
    plain = _object(text)
    found = _rows(plain, "subscriptionGroupTable", GroupConfig, _group_flaw)
    version = _version(plain, found.aside)
    return Read(SubscriptionGroupWrapper(found.content, version), found.aside)


def read_filters(text: bytes) -> Read[list[ConsumerFilterData]]:
    """Parse `consumerFilter.json`. Raises BodyError if nothing in it can be used."""
    kept: list[ConsumerFilterData] = []
    aside: list[Aside] = []
    for topic, of_topic in _table(_object(text), "filterDataByTopic").items():
        try:
            if not isinstance(of_topic, dict):
                raise BodyError("not an object")
            by_group = _table(of_topic, "groupFilterData")
        except BodyError as error:
            aside.append(_aside(topic, str(error), of_topic))
            continue
        rows = _take(by_group, ConsumerFilterData, _filter_flaw)
        for group, row in rows.content.items():
            if row.topic == topic:
                kept.append(row)
            else:
                aside.append(_aside(f"{group} of {topic}", "another topic", by_group[group]))
        aside += [(f"{group} of {topic}", flaw, entry) for group, flaw, entry in rows.aside]
    return _unless_all_are_bad(Read(kept, aside))


def bad_name(name: str) -> str | None:
    """Why a topic or a group cannot have this name, None if it can.

    RocketMQ accepts any group from a heartbeat, and creates a retry topic with a folder for it. So
    every name that RocketMQ may have created is accepted, however odd.
    """
    try:
        named(name)
    except ValueError as error:
        return str(error)
    if not name:
        return "the name is empty"
    if "/" in name or name in (".", ".."):
        return "the name cannot be the name of a folder"
    return None


def _topic_flaw(name: str, row: TopicConfig) -> str | None:
    if row.topic_name != name:
        return f"its topicName is {row.topic_name!r}"
    if flaw := queues_flaw(name, row.read_queue_nums, row.write_queue_nums):
        return flaw
    if not 0 <= row.perm <= PERM_MAX:
        return f"perm={row.perm}: must be 0 to {PERM_MAX}"
    if row.topic_filter_type not in FILTER_TYPES:
        return f"topicFilterType={row.topic_filter_type}: must be one of {', '.join(FILTER_TYPES)}"
    return None


def _group_flaw(name: str, row: GroupConfig) -> str | None:
    if row.group_name != name:
        return f"its groupName is {row.group_name!r}"
    if not 0 <= row.retry_queue_nums <= QUEUES_MAX:
        return f"retryQueueNums={row.retry_queue_nums}: must be 0 to {QUEUES_MAX}"
    return None


def _filter_flaw(group: str, row: ConsumerFilterData) -> str | None:
    if row.consumer_group != group:
        return f"its consumerGroup is {row.consumer_group!r}"
    return bad_name(row.topic)


def _object(text: bytes) -> dict[str, Any]:
    """Parse a JSON object. Raises BodyError that names the byte of the error."""
    try:
        plain = fastjson.loads(text.decode())
    except UnicodeDecodeError as error:
        raise BodyError(f"not UTF-8 at byte {error.start}") from error
    except ValueError as error:
        raise BodyError(f"not JSON: {error}") from error
    if not isinstance(plain, dict):
        raise BodyError("not an object at byte 0")
    return plain


def _table(plain: dict[str, Any], name: str) -> dict[str, Any]:
    """A table of an object. RocketMQ writes empty tables too, so an object without one is not
    empty but lost."""
    if not plain:
        raise BodyError(f"no {name}: an empty object")
    if name not in plain:
        raise BodyError(f"no {name}, but {next(iter(plain))}: the content of another file")
    table = plain[name]
    if not isinstance(table, dict):
        raise BodyError(f"{name} is not a table")
    return table


def _rows(
    plain: dict[str, Any], name: str, kind: type[Row], flaw: Callable[[str, Row], str | None]
) -> Read[dict[str, Row]]:
    return _unless_all_are_bad(_take(_table(plain, name), kind, flaw))


def _take(
    table: dict[str, Any], kind: type[Row], flaw: Callable[[str, Row], str | None]
) -> Read[dict[str, Row]]:
    kept: dict[str, Row] = {}
    aside: list[Aside] = []
    for name, entry in table.items():
        try:
            row = kind.from_plain(entry)
            wrong = bad_name(name) or flaw(name, row)
        except BodyError as error:
            wrong = str(error)
        if wrong is None:
            kept[name] = row
        else:
            aside.append(_aside(name, wrong, entry))
    return Read(kept, aside)


def _unless_all_are_bad(read: Read[Content]) -> Read[Content]:
    """Raise BodyError if no entry can be used: then the whole file is damaged."""
    if read.aside and not read.content:
        name, wrong, _ = read.aside[0]
        raise BodyError(f"{name}: {wrong}")
    return read


def _version(plain: dict[str, Any], aside: list[Aside]) -> DataVersion:
    """The version of the table; a new version if the file's cannot be used."""
    entry = plain.get("dataVersion")
    if entry is None:
        return DataVersion()
    try:
        return DataVersion.from_plain(entry)
    except BodyError as error:
        aside.append(_aside("dataVersion", str(error), entry))
        return DataVersion()


def _aside(name: str, wrong: str, entry: object) -> Aside:
    return name, wrong, fastjson.dumps(entry)
