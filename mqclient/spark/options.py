"""Options of format("rocketmq"): text in, a frozen, checked value out."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeVar

from mqclient.config import (
    BODY_BYTES_MAX,
    ClientSettings,
    Credentials,
    credentials,
    namesrv_addresses,
    read_address_map,
)
from mqclient.credentials import read_credentials
from mqclient.tls import Tls, read_tls, tls_from_environment
from mqstore.names import TOOLS_GROUP
from mqstore.spark_options import queue_ids, refuse_unknown, tag_names

__all__ = ["Options"]

G = TypeVar("G")
T = TypeVar("T")

EARLIEST, LATEST = "earliest", "latest"
OPTION_NAMES = (
    *("nameserver", "topic", "queues", "tag", "group", "partitions", "timeout"),
    *("startingOffsets", "startingTimestamp", "endingOffsets", "endingTimestamp"),
    *("failOnDataLoss", "maxRowsPerTrigger", "producerGroup", "addressMap"),
    *("maxRate", "maxMessageSize", "retryTimeout"),
    *("accessKey", "secretKey", "securityToken", "credentials", "tlsConfig"),
)
"""Every option there is; others are refused."""


@dataclass(frozen=True, slots=True)
class Options:
    """What a user says with `.option(...)`; names are those of the fields in camelCase."""

    nameserver: tuple[str, ...]
    """host:port (port 9876 unless given), several separated by ";" or ",", or the URL of an address
    server; else NAMESRV_ADDR, else 127.0.0.1:9876."""
    topic: str | None = None
    """Topics to read, separated by ","; the topic of a write whose rows have none."""
    queues: frozenset[int] | None = None
    """Only these queue ids, "0,2"."""
    tag: str | None = None
    """Tag expression, "TagA || TagB"."""
    group: str = TOOLS_GROUP
    """Consumer group that pulls are made in; nothing is committed."""
    starting: str | int | dict[str, int] | None = None
    """startingOffsets: earliest, latest, or {"broker|topic|queue": offset} as JSON;
    startingTimestamp: ISO 8601 or milliseconds, from the first message stored
    then or later. Default: batch earliest, stream latest."""
    ending: str | int | dict[str, int] | None = None
    """endingOffsets, endingTimestamp: the same; for batches only. Default: latest."""
    fail_on_data_loss: bool = True
    """failOnDataLoss: whether offsets that are gone from the broker are an error."""
    partitions: int = 8
    """Most tasks that one batch is split into."""
    max_rows_per_trigger: int | None = None
    """maxRowsPerTrigger: most rows of one micro-batch."""
    producer_group: str = "SPARK_PRODUCER"
    """producerGroup: group of a write."""
    timeout: float = 10.0
    """Seconds one request may take."""
    retry_timeout: float = 60.0
    """retryTimeout: seconds during which a write tries failures that pass again."""
    max_rate: int | None = None
    """maxRate: most messages a second of each task of a write."""
    max_message_size: int = BODY_BYTES_MAX
    """maxMessageSize: the setting of the brokers; most bytes of a message of a write."""
    address_map: dict[str, str] = field(default_factory=dict)
    """addressMap: "172.17.0.2:10911=localhost:10911,...", for brokers behind NAT."""
    account: Credentials = field(default_factory=Credentials, repr=False)
    """accessKey, secretKey, securityToken, which sign every request; or credentials: a tools.yml
    with them, read on the driver. Default: conf/tools.yml below ROCKETMQ_HOME, if there is one."""
    tls: Tls | None = None
    """tlsConfig: a tls.properties that says how to speak TLS, read on the driver; the files it
    names must be at the same path on every worker. Default: that of MQ_TLS_CONFIG, if set."""

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> Options:
        """Read Spark's option map (keys in any case); ValueError names a bad option."""
        refuse_unknown(given, OPTION_NAMES)
        get = given.get
        return cls(
            nameserver=_checked("nameserver", namesrv_addresses, get("nameserver") or None),
            topic=get("topic") or None,
            queues=queue_ids(get("queues")),
            tag=None if tag_names(get("tag")) is None else get("tag"),
            group=get("group") or TOOLS_GROUP,
            starting=_position(get("startingOffsets"), get("startingTimestamp"), "starting"),
            ending=_position(get("endingOffsets"), get("endingTimestamp"), "ending"),
            fail_on_data_loss=_boolean("failOnDataLoss", get("failOnDataLoss"), True),
            partitions=_number("partitions", get("partitions")) or 8,
            max_rows_per_trigger=_number("maxRowsPerTrigger", get("maxRowsPerTrigger")),
            producer_group=get("producerGroup") or "SPARK_PRODUCER",
            timeout=_seconds("timeout", get("timeout"), 10.0),
            retry_timeout=_seconds("retryTimeout", get("retryTimeout"), 60.0),
            max_rate=_number("maxRate", get("maxRate")),
            max_message_size=_number("maxMessageSize", get("maxMessageSize")) or BODY_BYTES_MAX,
            address_map=_checked("addressMap", read_address_map, get("addressMap") or ""),
            account=_account(given),
            tls=read_tls(file) if (file := get("tlsConfig")) else tls_from_environment(),
        )

    @property
    def topics(self) -> list[str]:
        """Topics to read; ValueError when none is named."""
        names = [name.strip() for name in (self.topic or "").split(",") if name.strip()]
        if not names:
            raise ValueError('say which topic to read: .option("topic", "TopicTest")')
        return names

    @property
    def tags(self) -> frozenset[str] | None:
        """The tags wanted, None for all."""
        return tag_names(self.tag)

    def client_settings(self) -> ClientSettings:
        """What the client's engine is made with."""
        return ClientSettings(
            namesrv=self.nameserver,
            address_map=self.address_map,
            request_timeout=self.timeout,
            tls=self.tls,
            **self.account,
        )


def _checked(option: str, read: Callable[[G], T], given: G) -> T:
    """What `read` makes of an option's text; a ValueError names the option."""
    try:
        return read(given)
    except ValueError as error:
        raise ValueError(f"option {option}: {error}") from None


def _account(given: Mapping[str, str]) -> Credentials:
    names = ("accessKey", "secretKey", "securityToken")
    access, secret, token = (given.get(name) for name in names)
    file = given.get("credentials")
    if not access and not secret:
        return read_credentials(file or None)
    if file:
        raise ValueError("give option credentials, or accessKey and secretKey, not both")
    if not access or not secret:
        raise ValueError("options accessKey and secretKey go together: give both or neither")
    return credentials(access, secret, token)


def _position(
    offsets: str | None, timestamp: str | None, which: str
) -> str | int | dict[str, int] | None:
    if offsets and timestamp:
        raise ValueError(f"give {which}Offsets or {which}Timestamp, not both")
    if timestamp:
        return _milliseconds(f"{which}Timestamp", timestamp)
    if not offsets or offsets.strip().lower() in (EARLIEST, LATEST):
        return offsets.strip().lower() if offsets else None
    try:
        return {str(key): int(at) for key, at in json.loads(offsets).items()}
    except (ValueError, AttributeError, TypeError):
        raise ValueError(
            f"option {which}Offsets = {offsets!r}: give earliest, latest or "
            f'{{"broker|topic|queue": offset, ...}}'
        ) from None


def _milliseconds(option: str, text: str) -> int:
    if text.strip().isdigit():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"option {option} = {text!r}: give milliseconds or ISO 8601, 2026-11-21T07:30:00+00:00"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)


def _boolean(option: str, text: str | None, default: bool) -> bool:
    if not text:
        return default
    if text.lower() not in ("true", "false"):
        raise ValueError(f"option {option} = {text!r}: give true or false")
    return text.lower() == "true"


def _number(option: str, text: str | None) -> int | None:
    if not text:
        return None
    if not text.isdigit() or int(text) < 1:
        raise ValueError(f"option {option} = {text!r}: give a number above 0")
    return int(text)


def _seconds(option: str, text: str | None, default: float) -> float:
    try:
        seconds = float(text) if text else default
    except ValueError:
        seconds = 0.0
    if seconds <= 0:
        raise ValueError(f"option {option} = {text!r}: give seconds above 0")
    return seconds
