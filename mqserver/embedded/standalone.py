"""A NameServer and a broker together: in this process, or in a process of their own.

```python
from mqserver import Standalone

with Standalone() as mq:
    topic = mq.topic()
    print(mq.namesrv, topic)
```
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, Self

from mqcommon.message import ReceivedMessage, decode_messages
from mqcommon.names import AUTO_CREATE_TOPIC, TOOLS_GROUP
from mqcommon.wire.bodies.common import KVTable
from mqcommon.wire.bodies.topics import TopicStatsTable
from mqcommon.wire.codes import PullSysFlag, RequestCode
from mqcommon.wire.frame import Frame
from mqcommon.wire.headers.admin import CreateTopicRequestHeader
from mqcommon.wire.headers.offsets import QueryConsumerOffsetRequestHeader, QueueRequestHeader
from mqcommon.wire.headers.pull import PullMessageRequestHeader
from mqserver.config.replication_table import SLAVE, SLAVES_MAX
from mqserver.embedded.in_process import InProcessServers
from mqserver.embedded.raw_client import Probe
from mqserver.embedded.subprocess_servers import SubprocessServers
from mqserver.registration.advertised import advertised_keys

SMALL_STORE = {
    "mappedFileSizeCommitLog": str(16 << 20),
    "maxHashSlotNum": "10000",
    "maxIndexNum": "40000",
    "allocateStepBytes": str(4 << 20),
}
"""File sizes of a new store for tests and laptops."""
ALWAYS = {"minFreeBytes": str(64 << 20)}
"""Refuse messages by free bytes: a laptop's disk that is 95 % full may still have enough room."""
_PULL_COUNT = 32


class Servers(Protocol):
    """A NameServer and a broker that can be started and stopped; see `pair` and `child`.

    broker: the address that this process uses. advertised_address, address_origin: the address that
    clients are given, and where it comes from. warnings: for the operator, after the start.
    """

    namesrv: str
    broker: str
    advertised_address: str
    address_origin: str
    warnings: tuple[str, ...]

    def start(self) -> None:
        """Start both; returns when both answer."""

    def stop(self) -> None:
        """Stop both in order."""

    @property
    def poisoned(self) -> bool:
        """After `stop`: whether the store could not be closed whole."""


class Standalone:
    """A NameServer and a broker on the loopback interface, for tests and laptops.

    data: the store's directory; a temporary one, removed at the end, unless given.
    host: address to listen on. advertise: "host" or "host:port" that clients are given.
    namesrv_port, port: 0 picks free ones. settings: more of RocketMQ's keys for the broker.
    namesrv_settings: the same for the NameServer. process: run them in a process of their own,
    so that `kill` is possible. slaves: number of slaves of the broker, 0 to 16; their stores are
    beside `data`, as DATA-slave-1 and so on.
    """

    def __init__(
        self,
        data: str | os.PathLike[str] | None = None,
        *,
        host: str = "127.0.0.1",
        advertise: str | None = None,
        namesrv_port: int = 0,
        port: int = 0,
        settings: Mapping[str, str] | None = None,
        namesrv_settings: Mapping[str, str] | None = None,
        process: bool = False,
        slaves: int = 0,
    ) -> None:
        if not 0 <= slaves <= SLAVES_MAX:
            raise ValueError(f"slaves={slaves}: must be 0 to {SLAVES_MAX}")
        self.is_temporary = data is None
        self.data = Path(data or tempfile.mkdtemp(prefix="mqstack-"))
        self.host = host
        self.ports = (namesrv_port, port)
        self.broker_settings = {
            "brokerName": "broker-a",
            "bindAddress": host,
            "listenPort": str(port),
            "fastPortEnable": "false",
            "haListen": str(bool(slaves)).lower(),
            "storePathRootDir": str(self.data),
            **advertised_keys(advertise),
            **ALWAYS,
            **({} if (self.data / "commitlog").exists() else SMALL_STORE),
            **(settings or {}),
        }
        self.namesrv_settings = {
            "bindAddress": host,
            "listenPort": str(namesrv_port),
            "kvConfigPath": str(self.data / "mqstack" / "namesrv" / "kvConfig.json"),
            **(namesrv_settings or {}),
        }
        self._process = process
        self._slaves = slaves
        self._servers: Servers | None = None
        self._has_run = False

    # --- start and stop

    def start(self) -> Self:
        """Start both servers; they answer when this returns.

        If they cannot start, an exception says why, and a temporary store that is new is removed.
        """
        servers: Servers
        if self._process:
            servers = SubprocessServers(
                self.data, self.namesrv_settings, self.broker_settings, self._slaves
            )
        else:
            settings = [self._slave_settings(number) for number in self._slave_numbers]
            servers = InProcessServers(self.namesrv_settings, self.broker_settings, settings)
        try:
            servers.start()
        except BaseException:
            if not self._has_run:
                self._remove_temporary()
            raise
        self._servers, self._has_run = servers, True
        self._keep_ports()
        return self

    @property
    def _slave_numbers(self) -> range:
        return range(1, self._slaves + 1)

    def _slave_data(self, number: int) -> Path:
        return self.data.with_name(f"{self.data.name}-slave-{number}")

    def _slave_settings(self, number: int) -> dict[str, str]:
        """The settings of a slave: the master's, with a role, a port and a store of its own."""
        return {
            **self.broker_settings,
            "brokerRole": SLAVE,
            "brokerId": str(number),
            "listenPort": "0",
            "advertisedPort": "0",
            "haListen": "false",
            "fastPortEnable": "false",
            "metricsListen": "",
            "storePathRootDir": str(self._slave_data(number)),
        }

    def _keep_ports(self) -> None:
        """A restart takes the same ports, and the sizes the store has now."""
        self.namesrv_settings["listenPort"] = self.namesrv.rpartition(":")[2]
        self.broker_settings["listenPort"] = self.servers.broker.rpartition(":")[2]
        for key in SMALL_STORE:
            if key != "allocateStepBytes":
                self.broker_settings.pop(key, None)

    def stop(self) -> None:
        """Stop both servers and remove a temporary store. Twice is fine."""
        servers, self._servers = self._servers, None
        if servers is not None:
            servers.stop()
        self._remove_temporary()

    def _remove_temporary(self) -> None:
        if self.is_temporary:
            for folder in (self.data, *map(self._slave_data, self._slave_numbers)):
                shutil.rmtree(folder, ignore_errors=True)

    def restart(self) -> None:
        """Stop both in order and start them again: same ports, same store."""
        self.servers.stop()
        self._servers = None
        self.start()

    def kill(self) -> None:
        """SIGKILL the process of both; only with `process=True`. `start` starts them again."""
        if not isinstance(self.servers, SubprocessServers):
            raise RuntimeError("only a Standalone(process=True) can be killed")
        self.servers.kill()
        self._servers = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *raised: object) -> None:
        self.stop()

    # --- addresses, topics and messages

    @property
    def servers(self) -> Servers:
        """The running servers: `InProcessServers` or `SubprocessServers`."""
        if self._servers is None:
            raise RuntimeError("not started: use it in a with statement, or call start()")
        return self._servers

    @property
    def namesrv(self) -> str:
        """Address of the NameServer, "host:port"."""
        return self.servers.namesrv

    @property
    def broker_address(self) -> str:
        """Address of the broker, "host:port"."""
        return self.servers.broker

    @property
    def slave_addresses(self) -> list[str]:
        """Addresses of the slaves, each as "host:port"; they are known with `process=False`."""
        servers = self.servers
        return servers.slave_addresses if isinstance(servers, InProcessServers) else []

    @property
    def advertised_address(self) -> str:
        """The broker address that clients are given, "host:port"."""
        return self.servers.advertised_address

    @property
    def address_origin(self) -> str:
        """Where `advertised_address` comes from: a setting, or the network interface."""
        return self.servers.address_origin

    def _probe(self, address: str | None = None) -> Probe:
        tls = self.broker_settings.get("tls.server.mode") == "enforcing"
        return Probe(address or self.broker_address, tls=tls)

    def topic(self, name: str | None = None, queues: int = 4) -> str:
        """Create a topic and return its name; without `name` the name is a new, unique one."""
        name = name or f"Topic-{uuid.uuid4().hex[:12]}"
        header = CreateTopicRequestHeader(
            topic=name,
            default_topic=AUTO_CREATE_TOPIC,
            read_queue_nums=queues,
            write_queue_nums=queues,
            perm=6,
            topic_filter_type="SINGLE_TAG",
        )
        with self._probe() as broker:
            reply = broker.call(Frame(RequestCode.UPDATE_AND_CREATE_TOPIC, header.to_fields()))
        if reply.code:
            raise ValueError(f"cannot create topic {name}: {reply.remark}")
        return name

    def messages(self, topic: str) -> list[ReceivedMessage]:
        """All messages of a topic, queue by queue, in order; commits no offset."""
        found: list[ReceivedMessage] = []
        self.wait_dispatched()
        with self._probe() as broker:
            for queue_id in range(_queues(broker, topic)):
                offset = _offset(broker, RequestCode.GET_MIN_OFFSET, topic, queue_id)
                end = _offset(broker, RequestCode.GET_MAX_OFFSET, topic, queue_id)
                while offset < end:
                    reply = broker.call(_pull(topic, queue_id, offset))
                    offset = int(reply.fields["nextBeginOffset"])
                    found += decode_messages(reply.body, self.broker_settings["brokerName"])
        return found

    def wait_dispatched(self, timeout: float = 30.0) -> None:
        """Wait until every message acknowledged so far is in its queue and the index."""
        deadline = time.monotonic() + timeout
        with self._probe() as broker:
            while time.monotonic() < deadline:
                if _figures(broker).get("dispatchBehindBytes", "0") == "0":
                    return
                time.sleep(0.001)
        raise TimeoutError(f"the broker's queues are behind its log after {timeout} s")

    def wait_replicated(self, timeout: float = 30.0) -> None:
        """Wait until every slave has joined, and has all messages so far in its queues.

        timeout: seconds. Only with `process=False`. A slave copies topics and committed offsets
        every ten seconds; this does not wait for them. Raises TimeoutError.
        """
        deadline = time.monotonic() + timeout
        while not self._is_replicated():
            if time.monotonic() > deadline:
                raise TimeoutError(f"the slaves are behind their master after {timeout} s")
            time.sleep(0.001)

    def _is_replicated(self) -> bool:
        with self._probe() as broker:
            master = _figures(broker)
        joined = [key for key in master if key.startswith("haSlave.")]
        if len(joined) < len(self.slave_addresses):
            return False
        for address in self.slave_addresses:
            with self._probe(address) as slave:
                figures = _figures(slave)
            has_all = figures["commitLogMaxOffset"] == master["commitLogMaxOffset"]
            if not has_all or figures["dispatchBehindBytes"] != "0":
                return False
        return True

    def wait_consumed(self, group: str, topic: str, timeout: float = 60.0) -> None:
        """Wait until a group has committed every message of a topic.

        Raises TimeoutError, which names the queues with messages that are not committed.
        """
        deadline = time.monotonic() + timeout
        self.wait_dispatched()
        with self._probe() as broker:
            while behind := _behind(broker, group, topic):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{group} is behind in {topic} after {timeout} s: {behind}")
                time.sleep(0.02)


def _figures(broker: Probe) -> Mapping[str, str]:
    """Code 28: the figures of a broker."""
    reply = broker.call(Frame(RequestCode.GET_BROKER_RUNTIME_INFO))
    return KVTable.from_json(reply.body).table


def _queues(broker: Probe, topic: str) -> int:
    """Number of queues of a topic, from its statistics."""
    reply = broker.call(Frame(RequestCode.GET_TOPIC_STATS_INFO, {"topic": topic}))
    if reply.code:
        raise ValueError(f"topic {topic}: {reply.remark}")
    return len(TopicStatsTable.from_json(reply.body).offset_table)


def _offset(broker: Probe, code: RequestCode, topic: str, queue_id: int) -> int:
    header = QueueRequestHeader(topic=topic, queue_id=queue_id)
    return int(broker.call(Frame(code, header.to_fields())).fields["offset"])


def _pull(topic: str, queue_id: int, offset: int) -> Frame:
    header = PullMessageRequestHeader(
        consumer_group=TOOLS_GROUP,
        topic=topic,
        queue_id=queue_id,
        queue_offset=offset,
        max_msg_nums=_PULL_COUNT,
        sys_flag=int(PullSysFlag.SUBSCRIPTION),
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription="*",
        sub_version=0,
        expression_type="TAG",
    )
    return Frame(RequestCode.PULL_MESSAGE, header.to_fields())


def _behind(broker: Probe, group: str, topic: str) -> dict[int, int]:
    """Number of messages that are not committed, by queue."""
    behind: dict[int, int] = {}
    for queue_id in range(_queues(broker, topic)):
        end = _offset(broker, RequestCode.GET_MAX_OFFSET, topic, queue_id)
        header = QueryConsumerOffsetRequestHeader(
            consumer_group=group, topic=topic, queue_id=queue_id
        )
        reply = broker.call(Frame(RequestCode.QUERY_CONSUMER_OFFSET, header.to_fields()))
        committed = int(reply.fields["offset"]) if reply.code == 0 else 0
        if committed < end:
            behind[queue_id] = end - committed
    return behind
