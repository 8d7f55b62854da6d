"""audit: gaps, repeated messages and delays of messages, in topics or in a lake."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from mqclient.errors import NoRouteError
from mqcommon.names import TRACE_TOPIC
from mqpipeline.jobs import frames
from mqpipeline.jobs.session import open_session
from mqpipeline.jobs.topics import Backlog, Moment, look, parse_options
from mqpipeline.lake.storage import Lake

__all__ = ["AuditReport", "audit", "audit_lake", "plan_audit"]

SCHEMA = (
    "topic string, broker_name string, queue_id int, queue_offset long, msg_id string, "
    "born_timestamp timestamp, store_timestamp timestamp"
)
QUANTILES = "array(0.5, 0.95, 0.99)"
TRACED = """
SELECT get(part, 0) AS kind, try_cast(get(part, 1) AS long) AS at, get(part, 3) AS party,
  get(part, 4) AS topic, get(part, 5) AS id, get(part, 6) AS retries
FROM (SELECT split(piece, char(1)) AS part FROM (
  SELECT explode(split(cast(body AS string), char(2))) AS piece FROM {traces}))
"""
"""Format: `TraceDataEncoder.encoderFromContextBean`. Records end with character 2, fields with 1.
Field 3 is the group of the producer or consumer; field 6 of a `SubBefore` counts retries."""

DELAYS = f"""
SELECT topic, hour, count(*) AS messages, percentile_approx(delay, {QUANTILES}) AS p,
  max(delay) AS m
FROM (SELECT topic, date_format(store_timestamp, 'yyyy-MM-dd HH:00') AS hour,
        unix_millis(store_timestamp) - unix_millis(born_timestamp) AS delay FROM {{messages}})
GROUP BY topic, hour ORDER BY topic, hour
"""
QUEUES = """
SELECT topic, broker_name, queue_id, min(queue_offset) AS first, max(queue_offset) AS last,
  count(*) AS messages, count_if(step > 1) AS gaps,
  coalesce(sum(step - 1) FILTER (WHERE step > 1), 0) AS missing,
  min(before + 1) FILTER (WHERE step > 1) AS first_missing, count_if(step = 0) AS repeated
FROM (SELECT *, queue_offset - before AS step FROM (
  SELECT *, lag(queue_offset) OVER (
    PARTITION BY topic, broker_name, queue_id ORDER BY queue_offset) AS before FROM {messages}))
GROUP BY topic, broker_name, queue_id ORDER BY topic, broker_name, queue_id
"""
COPIES = """
SELECT topic, sum(n) AS messages, count_if(n > 1) AS ids, sum(n - 1) AS copies
FROM (SELECT topic, msg_id, count(*) AS n FROM {messages} GROUP BY topic, msg_id)
GROUP BY topic ORDER BY topic
"""
CONSUMED = f"""
SELECT topic, reader, hour, count(*) AS messages, percentile_approx(delay, {QUANTILES}) AS p,
  max(delay) AS m
FROM (SELECT sent.topic AS topic, got.party AS reader, got.at - sent.at AS delay,
        date_format(timestamp_millis(sent.at), 'yyyy-MM-dd HH:00') AS hour
      FROM {{traced}} sent JOIN {{traced}} got ON sent.id = got.id
      WHERE sent.kind = 'Pub' AND got.kind = 'SubBefore' AND got.retries = '0')
GROUP BY topic, reader, hour ORDER BY topic, reader, hour
"""


class AuditReport(msgspec.Struct, kw_only=True):
    """The result; each list has one row per topic, per queue or per hour."""

    topics: list[dict[str, Any]]
    """Number of messages, and of messages whose unique id occurs more than once."""
    queues: list[dict[str, Any]]
    """First and last offset, gaps between them, and repeated offsets."""
    hours: list[dict[str, Any]]
    """Delay from the producer to the store, in milliseconds."""
    consumption: list[dict[str, Any]]
    """Delay from the producer to a consumer group, in milliseconds, if clients send traces."""

    @property
    def gaps(self) -> int:
        """The number of gaps in all queues."""
        return sum(queue["gaps"] for queue in self.queues)


def plan_audit(
    topics: Sequence[str],
    options: Mapping[str, str] | None = None,
    *,
    namesrv: str | None = None,
    start: Moment = "earliest",
    end: Moment = "latest",
) -> Backlog:
    """What `audit` would read; does not start Spark."""
    return look(parse_options(namesrv, options or {}), topics, {}, start, end)


def audit(
    topics: Sequence[str],
    options: Mapping[str, str] | None = None,
    *,
    namesrv: str | None = None,
    start: Moment = "earliest",
    end: Moment = "latest",
    spark: Callable[[], Any] = open_session,
) -> AuditReport:
    """Audit topics of a cluster. For the arguments see `to_lake`."""
    options = options or {}
    pieces = plan_audit(topics, options, namesrv=namesrv, start=start, end=end).pieces
    try:
        traced = plan_audit([TRACE_TOPIC], options, namesrv=namesrv, start=start, end=end)
    except NoRouteError:
        traced = Backlog([], [])
    session = spark()
    messages = frames.of_topics(session, namesrv, options, pieces, SCHEMA)
    traces = None
    if traced.rows:
        traces = frames.of_topics(session, namesrv, options, traced.pieces, "body binary")
    return _report(session, messages, traces)


def audit_lake(
    lake: str, topics: Sequence[str] = (), *, spark: Callable[[], Any] = open_session
) -> AuditReport:
    """Audit the files of a lake. topics: default all."""
    opened = Lake(lake)
    known = frames.lake_topics(opened)
    session = spark()
    messages = frames.of_lake(session, opened, topics)
    traces = frames.of_lake(session, opened, [TRACE_TOPIC]) if TRACE_TOPIC in known else None
    return _report(session, messages, traces)


def _report(session: Any, messages: Any, traces: Any | None) -> AuditReport:
    names = [column.split()[0] for column in SCHEMA.split(", ")]
    messages = messages.select(*names).cache()
    try:
        queues = [_queue(row) for row in session.sql(QUEUES, messages=messages).collect()]
        hours = [_hour(row) for row in session.sql(DELAYS, messages=messages).collect()]
        topics = [_topic(row) for row in session.sql(COPIES, messages=messages).collect()]
    finally:
        messages.unpersist()
    consumption = []
    if traces is not None:
        traced = session.sql(TRACED, traces=traces)
        found = session.sql(CONSUMED, traced=traced).collect()
        consumption = [{**_hour(row), "group": row.reader} for row in found]
    return AuditReport(topics=topics, queues=queues, hours=hours, consumption=consumption)


def _topic(row: Any) -> dict[str, Any]:
    return {
        "topic": row.topic,
        "messages": row.messages,
        "repeatedIds": row.ids,
        "extraCopies": row.copies,
    }


def _queue(row: Any) -> dict[str, Any]:
    return {
        "topic": row.topic,
        "broker": row.broker_name,
        "queue": row.queue_id,
        "first": row["first"],
        "last": row["last"],
        "messages": row.messages,
        "gaps": row.gaps,
        "missing": row.missing,
        "firstMissing": row.first_missing,
        "repeated": row.repeated,
    }


def _hour(row: Any) -> dict[str, Any]:
    p50, p95, p99 = row.p
    return {
        "topic": row.topic,
        "hour": row.hour,
        "messages": row.messages,
        "p50Ms": p50,
        "p95Ms": p95,
        "p99Ms": p99,
        "maxMs": row.m,
    }
