"""dlq: a report on the dead-letter topics of a cluster, by consumer group."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from mqclient import Admin, Connection
from mqcommon.names import DLQ_PREFIX, dead_letter_topic
from mqpipeline.errors import UsageError
from mqpipeline.jobs import frames
from mqpipeline.jobs.session import open_session
from mqpipeline.jobs.topics import Piece, look, parse_options
from mqpipeline.spark.topics.options import Options

__all__ = ["GroupReport", "dlq", "plan_dlq"]

JOB = "dlq"
TOP = 3
"""Number of most frequent tags and keys in a report."""
SCHEMA = (
    "topic string, queue_id int, queue_offset long, msg_id string, tags string, keys string, "
    "body binary, properties map<string,string>, reconsume_times int, store_timestamp timestamp"
)
GROUPS = """
SELECT topic, count(*) AS messages, unix_millis(min(store_timestamp)) AS oldest,
  unix_millis(max(store_timestamp)) AS newest,
  array_sort(collect_set(properties['RETRY_TOPIC'])) AS origins,
  min(reconsume_times) AS retries_min, max(reconsume_times) AS retries_max
FROM {messages} GROUP BY topic
"""
FREQUENT = f"""
SELECT topic, kind, value FROM (
  SELECT *, row_number() OVER (PARTITION BY topic, kind ORDER BY n DESC, value) AS place FROM (
    SELECT topic, kind, value, count(*) AS n FROM (
      SELECT topic, 'tags' AS kind, tags AS value FROM {{messages}}
      UNION ALL
      SELECT topic, 'keys', explode(split(keys, ' ')) FROM {{messages}})
    WHERE value != '' GROUP BY topic, kind, value))
WHERE place <= {TOP} ORDER BY topic, kind, place
"""
NEWEST = """
SELECT * FROM (
  SELECT topic, queue_id, queue_offset, msg_id, tags, keys, reconsume_times,
    unix_millis(store_timestamp) AS stored, substring(cast(body AS string), 1, 200) AS text,
    row_number() OVER (PARTITION BY topic ORDER BY store_timestamp DESC, queue_offset DESC) AS place
  FROM {messages})
WHERE place <= {count} ORDER BY topic, place
"""


class GroupReport(msgspec.Struct, kw_only=True, rename="camel"):
    """The dead letters of one consumer group. Times are milliseconds since the epoch."""

    group: str
    messages: int = 0
    oldest_ms: int | None = None
    newest_ms: int | None = None
    original_topics: list[str] = []
    retries_min: int | None = None
    retries_max: int | None = None
    tags: list[str] = []
    """The most frequent tags; `keys` are the most frequent keys."""
    keys: list[str] = []
    samples: list[dict[str, Any]] = []
    """The newest messages, with the first 200 characters of the body."""


def plan_dlq(
    groups: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
    *,
    namesrv: str | None = None,
) -> list[Piece]:
    """What `dlq` would read; does not start Spark."""
    parsed = parse_options(namesrv, options or {})
    topics = _topics(parsed, groups)
    return look(parsed, topics, {}).pieces if topics else []


def dlq(
    groups: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
    *,
    namesrv: str | None = None,
    samples: int = 0,
    spark: Callable[[], Any] = open_session,
) -> list[GroupReport]:
    """Report the dead letters of consumer groups. groups: default all with a dead-letter topic.

    samples: number of newest messages to show per group. Raises mqclient's errors.
    """
    options = options or {}
    pieces = plan_dlq(groups, options, namesrv=namesrv)
    names = dict.fromkeys(piece.queue.topic.removeprefix(DLQ_PREFIX) for piece in pieces)
    reports = {group: GroupReport(group=group) for group in names}
    if not any(piece.rows for piece in pieces):
        return list(reports.values())
    session = spark()
    messages = frames.of_topics(session, namesrv, options, pieces, SCHEMA).cache()
    try:
        _fill(session, messages, reports, samples)
    finally:
        messages.unpersist()
    return sorted(reports.values(), key=lambda report: -report.messages)


def _topics(options: Options, groups: Sequence[str]) -> list[str]:
    """The dead-letter topics of these groups, or of all groups; UsageError for a missing one."""
    with Admin(
        options.namesrv,
        connection=Connection(address_map=options.address_map),
        tls=options.tls,
        credentials=options.account,
    ) as admin:
        known = {name for name in admin.topics.names() if name.startswith(DLQ_PREFIX)}
    for group in groups:
        if dead_letter_topic(group) not in known:
            raise UsageError(
                f"group {group!r} has no dead-letter topic: either no message has used up its "
                f"retries, or the name is wrong"
            )
    return sorted(map(dead_letter_topic, groups) if groups else known)


def _fill(session: Any, messages: Any, reports: dict[str, GroupReport], samples: int) -> None:
    for row in session.sql(GROUPS, messages=messages).collect():
        report = reports[row.topic.removeprefix(DLQ_PREFIX)]
        report.messages = row.messages
        report.oldest_ms, report.newest_ms = row.oldest, row.newest
        report.original_topics = list(row.origins)
        report.retries_min, report.retries_max = row.retries_min, row.retries_max
    for row in session.sql(FREQUENT, messages=messages).collect():
        report = reports[row.topic.removeprefix(DLQ_PREFIX)]
        (report.tags if row.kind == "tags" else report.keys).append(row.value)
    if samples:
        for row in session.sql(NEWEST, messages=messages, count=samples).collect():
            reports[row.topic.removeprefix(DLQ_PREFIX)].samples.append(
                {
                    "queue": row.queue_id,
                    "offset": row.queue_offset,
                    "msgId": row.msg_id,
                    "tags": row.tags,
                    "keys": row["keys"],
                    "retries": row.reconsume_times,
                    "storedMs": row.stored,
                    "body": row.text,
                }
            )
