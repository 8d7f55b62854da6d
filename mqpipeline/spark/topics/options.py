"""Options of format("rocketmq"): text in, a frozen, checked value out.

DECLARED is the one place that names an option, its meaning and its default; the documentation
shows the same table.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mqclient.engine.credentials import read_credentials
from mqclient.engine.tls import TlsConfig, read_tls, tls_from_environment
from mqclient.engine.transport_like import TransportLike
from mqclient.settings.checks import (
    check_group,
    check_readable,
    check_topic,
    namesrv_addresses,
    read_address_map,
)
from mqclient.settings.clients import ConnectionOptions
from mqclient.settings.connection import Connection
from mqclient.settings.identity import Credentials
from mqclient.settings.producers import BODY_BYTES_MAX
from mqcommon.names import TOOLS_GROUP, tag_names
from mqpipeline.spark.option import (
    Option,
    Use,
    boolean,
    byte_count,
    count,
    queue_numbers,
    read_options,
    seconds,
)
from mqpipeline.spark.topics.positions import Position, read_offsets, read_start, read_time
from mqstore import check_sql

__all__ = ["DECLARED", "Options"]

READ: tuple[Use, ...] = ("batch", "stream")
TASKS_MAX = 8
"""Most tasks of a batch without an option that says otherwise."""


def _topics(text: str) -> tuple[str, ...]:
    return tuple(check_readable(name.strip()) for name in text.split(",") if name.strip())


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise ValueError(f"no regular expression: {error}") from None


def _tags(text: str) -> str | None:
    return None if tag_names(text) is None else text


def _filter(text: str) -> str:
    check_sql(text)
    return text


def _keys(text: str) -> frozenset[str]:
    return frozenset(text.split())


DECLARED = (
    Option(
        "namesrv",
        namesrv_addresses,
        "NameServers: `host:port` (9876 unless given), several separated by `;` or `,`, or the "
        "URL of an address server",
        shown="`NAMESRV_ADDR`, else 127.0.0.1:9876",
    ),
    Option("topic", _topics, "the topic to read; the topic of rows that a write does not name"),
    Option("topics", _topics, "topics to read, separated by `,`", uses=READ),
    Option(
        "topicPattern",
        _pattern,
        "a regular expression: read every topic whose whole name matches. System topics never "
        "match. Retry and dead-letter topics match only a pattern that starts with `%`",
        uses=READ,
    ),
    Option(
        "group",
        check_group,
        "the consumer group of the pulls",
        TOOLS_GROUP,
        TOOLS_GROUP,
        uses=READ,
    ),
    Option(
        "startingOffsets",
        read_start,
        '`earliest`, `latest`, `group:NAME`, `{"broker|topic|queue": offset}` or '
        '`{"topic": {"broker": {"queue": offset}}}`. `group:NAME` starts at the offsets that '
        "a consumer group committed. Queues that JSON or the group leaves out start at their "
        "earliest message. A stream uses it only at its first start",
        shown="batch: earliest; stream: latest",
        uses=READ,
    ),
    Option(
        "endingOffsets",
        read_offsets,
        "where a batch ends: as `startingOffsets`, without `group:`. Queues that JSON leaves out "
        "end at their latest message",
        shown="latest",
        uses=("batch",),
    ),
    Option(
        "startingTimestamp",
        read_time,
        "ISO 8601 with a time zone, or milliseconds since 1970: start at the first message that "
        "was stored then or later",
        uses=READ,
    ),
    Option(
        "endingTimestamp",
        read_time,
        "end before the first message that was stored then or later",
        uses=("batch",),
    ),
    Option("queues", queue_numbers, "only these queue ids, `0,2`", shown="all", uses=READ),
    Option("tags", _tags, "only these tags, `TagA || TagB`", shown="all", uses=READ),
    Option(
        "filter",
        _filter,
        "only messages whose properties match an SQL92 expression, `region = 'east' AND a > 5`. "
        "The broker applies the expression and needs `enablePropertyFilter=true`",
        shown="all",
        uses=READ,
    ),
    Option(
        "keys",
        _keys,
        "only messages with one of these keys, separated by spaces. The task compares the keys "
        "after the pull",
        shown="all",
        uses=READ,
    ),
    Option(
        "failOnDataLoss",
        boolean,
        "`true`: offsets that a queue does not hold, and messages that are damaged or lost, are "
        "an error that names the offset. `false`: they are a warning, and the others are read",
        True,
        "true",
        uses=READ,
    ),
    Option(
        "minPartitions",
        count,
        "at least this many tasks, if there are as many messages; large queues are split",
        uses=READ,
    ),
    Option("partitions", count, "at most this many tasks", shown=str(TASKS_MAX), uses=READ),
    Option(
        "maxRowsPerPartition",
        count,
        "most messages of one task; there are more tasks than `partitions` if this needs them",
        shown="no limit",
        uses=READ,
    ),
    Option(
        "maxRowsPerTrigger",
        count,
        "most messages of one micro-batch",
        shown="no limit",
        aliases=("maxOffsetsPerTrigger",),
        uses=("stream",),
    ),
    Option(
        "maxBytesPerTrigger",
        byte_count,
        "about the most bytes of one micro-batch, `67108864` or `64m`. The source estimates the "
        "size of a topic's messages by a few messages that it pulls before each micro-batch. One "
        "message always passes",
        shown="no limit",
        uses=("stream",),
    ),
    Option(
        "commitGroup",
        boolean,
        "`true`: commit the offsets of each micro-batch to `group`, so that lag tools see the "
        "query",
        False,
        "false",
        uses=("stream",),
    ),
    Option(
        "pushdown",
        boolean,
        "`true`: use the conditions of `.where()` to read less",
        False,
        "false",
        uses=("batch",),
    ),
    Option(
        "dedup",
        boolean,
        "`true`: a task drops messages whose `sparkRowId` it has already read",
        False,
        "false",
        uses=READ,
    ),
    Option(
        "retryTimeout",
        seconds,
        "seconds during which a call is tried again while a broker or every NameServer is away",
        60.0,
        "60",
    ),
    Option("timeout", seconds, "seconds one request may take", 10.0, "10"),
    Option(
        "producerGroup",
        check_group,
        "group of a write",
        "SPARK_PRODUCER",
        "SPARK_PRODUCER",
        uses=("write",),
    ),
    Option(
        "maxRate",
        count,
        "most messages that each task of a write sends in one second",
        shown="no limit",
        uses=("write",),
    ),
    Option(
        "maxMessageSize",
        count,
        "the brokers' setting of this name: most bytes of one message of a write",
        BODY_BYTES_MAX,
        str(BODY_BYTES_MAX),
        uses=("write",),
    ),
    Option(
        "addressMap",
        read_address_map,
        "`172.17.0.2:10911=localhost:10911,...` for brokers behind NAT",
    ),
    Option(
        "accessKey", str, "the account that signs every request, for brokers with access control"
    ),
    Option("secretKey", str, "its secret"),
    Option("securityToken", str, "its token, if it has one"),
    Option(
        "credentials",
        str,
        "a `tools.yml` with these three, read on the driver",
        shown="`conf/tools.yml` of ROCKETMQ_HOME, if there is one",
    ),
    Option(
        "tlsConfig",
        read_tls,
        "a `tls.properties` file, read on the driver; every worker needs the files that it names",
        shown="the file that MQ_TLS_CONFIG names, if set",
    ),
)
"""Every option there is; others are refused."""


@dataclass(frozen=True, slots=True)
class Options:
    """The values of the options; DECLARED says what each means."""

    namesrv: tuple[str, ...]
    topics: tuple[str, ...] = ()
    topic_pattern: re.Pattern[str] | None = None
    queues: frozenset[int] | None = None
    tag: str | None = None
    filter: str | None = None
    keys: frozenset[str] | None = None
    group: str = TOOLS_GROUP
    starting: Position = None
    ending: Position = None
    fail_on_data_loss: bool = True
    partitions: int = TASKS_MAX
    partitions_min: int = 1
    rows_per_partition_max: int | None = None
    max_rows_per_trigger: int | None = None
    max_bytes_per_trigger: int | None = None
    commit_group: bool = False
    pushdown: bool = False
    dedup: bool = False
    retry_timeout: float = 60.0
    timeout: float = 10.0
    producer_group: str = "SPARK_PRODUCER"
    max_rate: int | None = None
    max_message_size: int = BODY_BYTES_MAX
    address_map: dict[str, str] = field(default_factory=dict)
    account: Credentials | None = field(default=None, repr=False)
    tls: TlsConfig | None = None

    @classmethod
    def parse(cls, given: Mapping[str, str], use: Use | None = None) -> Options:
        """Read Spark's option map (keys in any case); ValueError names a bad option.

        use: the purpose of the options; None skips the checks for one purpose.
        """
        values = read_options(given, DECLARED, use)
        if use == "write":
            for topic in values["topic"] or ():
                check_topic(topic)
        options = cls(
            namesrv=values["namesrv"] or namesrv_addresses(None),
            topics=values["topic"] or values["topics"] or (),
            topic_pattern=values["topicPattern"],
            queues=values["queues"],
            tag=values["tags"],
            filter=values["filter"],
            keys=values["keys"],
            group=values["group"],
            starting=_either(values, "startingOffsets", "startingTimestamp"),
            ending=_either(values, "endingOffsets", "endingTimestamp"),
            fail_on_data_loss=values["failOnDataLoss"],
            partitions=values["partitions"] or max(TASKS_MAX, values["minPartitions"] or 1),
            partitions_min=values["minPartitions"] or 1,
            rows_per_partition_max=values["maxRowsPerPartition"],
            max_rows_per_trigger=values["maxRowsPerTrigger"],
            max_bytes_per_trigger=values["maxBytesPerTrigger"],
            commit_group=values["commitGroup"],
            pushdown=values["pushdown"],
            dedup=values["dedup"],
            retry_timeout=values["retryTimeout"],
            timeout=values["timeout"],
            producer_group=values["producerGroup"],
            max_rate=values["maxRate"],
            max_message_size=values["maxMessageSize"],
            address_map=values["addressMap"] or {},
            account=_account(given),
            tls=values["tlsConfig"] or tls_from_environment(),
        )
        _check_together(given, options, use)
        return options

    @property
    def topic(self) -> str | None:
        """The topic of a write whose rows name none."""
        return self.topics[0] if self.topics else None

    @property
    def tags(self) -> frozenset[str] | None:
        """The tags wanted, None for all."""
        return tag_names(self.tag)

    def client_settings(self, transport: TransportLike | None = None) -> ConnectionOptions:
        """The options for the client's engine."""
        return ConnectionOptions(
            namesrv=self.namesrv,
            connection=Connection(address_map=self.address_map, request_timeout=self.timeout),
            tls=self.tls,
            credentials=self.account,
            transport=transport,
        )


def _either(values: Mapping[str, Any], first: str, second: str) -> Any:
    return values[second] if values[first] is None else values[first]


_ONE_OF = (
    ("topic", "topics", "topicPattern"),
    ("startingOffsets", "startingTimestamp"),
    ("endingOffsets", "endingTimestamp"),
    ("tags", "filter"),
)
"""Options of which at most one is given."""


def _check_together(given: Mapping[str, str], options: Options, use: Use | None) -> None:
    """Refuse options that contradict each other, and a read without a topic."""
    for names in _ONE_OF:
        found = [name for name in names if given.get(name)]
        if len(found) > 1:
            raise ValueError(f"give option {' or '.join(found)}, not both")
    if use in READ and not options.topics and options.topic_pattern is None:
        raise ValueError(
            'say which topic to read: .option("topic", "TopicTest"), or topics, or topicPattern'
        )
    if use == "write" and len(options.topics) > 1:
        raise ValueError(f"option topic = {given['topic']!r}: a write goes to one topic")
    if options.partitions_min > options.partitions:
        raise ValueError(
            f"option minPartitions = {options.partitions_min} is more than the most, "
            f"partitions = {options.partitions}"
        )
    if options.commit_group and options.group == TOOLS_GROUP:
        raise ValueError("option commitGroup needs a group of its own: give the option group")


def _account(given: Mapping[str, str]) -> Credentials | None:
    names = ("accessKey", "secretKey", "securityToken")
    access, secret, token = (given.get(name) for name in names)
    file = given.get("credentials")
    if not access and not secret:
        return read_credentials(file or None)
    if file:
        raise ValueError("give option credentials, or accessKey and secretKey, not both")
    if not access or not secret:
        raise ValueError("options accessKey and secretKey go together: give both or neither")
    return Credentials(access, secret, token or None)
