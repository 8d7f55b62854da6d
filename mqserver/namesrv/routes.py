"""The route tables of the NameServer (`RouteInfoManager`), without sockets or clocks.

Every public method takes the lock. A change calls `changed` with its topics while the lock is held,
so that no cache can store an older route afterwards.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from msgspec.structs import replace

from mqcommon.wire.bodies.common import DataVersion
from mqcommon.wire.bodies.registration import Row
from mqcommon.wire.bodies.route import PERM_WRITE, BrokerData, ClusterInfo
from mqcommon.wire.bodies.route_bounds import queues_flaw
from mqserver.namesrv.bounds import Bounds
from mqserver.runtime.processor_api import Refused

log = logging.getLogger("mqserver.namesrv")
MASTER = 0
_SYS_FLAG = 3


@dataclasses.dataclass(frozen=True, slots=True)
class Registration:
    """One REGISTER_BROKER (103), decoded. source: the peer's host, without port."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    ha_address: str
    topics: Mapping[str, Row]
    version: DataVersion
    filter_servers: list[str] | None
    connection: int
    source: str


@dataclasses.dataclass(frozen=True, slots=True)
class LiveBroker:
    """A live broker. seen: monotonic seconds of its last registration or version query."""

    broker_name: str
    version: DataVersion
    connection: int
    ha_address: str
    source: str
    seen: float


class AddressTaken(Exception):
    """A request of another broker would change or remove the registration of a live broker."""


class Routes:
    """Topics, brokers and clusters.

    now: a monotonic clock in seconds. expiry: seconds after which a silent broker is dead.
    changed: called with topic names under the lock. bounds: limits on registrations.
    """

    def __init__(
        self,
        now: Callable[[], float],
        expiry: float,
        changed: Callable[[Iterable[str]], None],
        bounds: Bounds | None = None,
    ) -> None:
        self.lock = threading.RLock()
        self.bounds = bounds or Bounds()
        self._now = now
        self._expiry = expiry
        self._changed = changed
        self._topics: dict[str, dict[str, Row]] = {}
        self._brokers: dict[str, BrokerData] = {}
        self._clusters: dict[str, dict[str, None]] = {}
        self._live: dict[str, LiveBroker] = {}
        self._filters: dict[str, list[str]] = {}
        self._topic_counts: Counter[str] = Counter()

    def register(self, new: Registration) -> LiveBroker | None:
        """Apply a registration; returns the live master if the broker is its slave.

        Raises AddressTaken, or Refused for a broker beyond a limit; then nothing has changed.
        Raises Refused too if topics have too many queues, or there is no room for all topics; then
        the other topics are registered, and the broker's next registration is read again, whatever
        its version.
        """
        with self.lock:
            self._refuse_takeover(new)
            self._refuse_excess(new)
            touched: set[str] = set()
            self._clusters.setdefault(new.cluster, {})[new.broker_name] = None
            first = self._place(new, touched)
            left_out = self._take_topics(new, touched) if self._has_news(new, first) else None
            self._live[new.address] = LiveBroker(
                new.broker_name,
                new.version if left_out is None else DataVersion(),
                new.connection,
                new.ha_address,
                new.source,
                self._now(),
            )
            self._take_filters(new)
            if touched:
                self._changed(touched)
            if left_out is not None:
                raise left_out
            return self._master_of(new)

    def _refuse_excess(self, new: Registration) -> None:
        """Raises Refused for a new broker id, address or cluster member beyond a limit."""
        texts = (new.cluster, new.broker_name, new.address, new.ha_address)
        self.bounds.check_texts(texts, new.filter_servers)
        known = self._brokers.get(new.broker_name)
        ids = known.broker_addrs if known else {}
        mine = self._addresses_of(new.source)
        if new.broker_id not in ids:
            own = sum(address in mine for address in ids.values())
            self.bounds.check_ids(new.broker_name, new.source, own, len(ids))
            placed = [a for broker in self._brokers.values() for a in broker.broker_addrs.values()]
            own = sum(address in mine for address in placed)
            self.bounds.check_brokers("addresses of brokers", new.source, own, len(placed))
        if new.address not in self._live and len(self._live) >= self.bounds.brokers:
            self._forget_unplaced()
        if new.broker_name not in self._clusters.get(new.cluster, {}):
            if sum(map(len, self._clusters.values())) >= self.bounds.brokers:
                self._forget_empty()
            members = [name for names in self._clusters.values() for name in names]
            names = {self._live[address].broker_name for address in mine}
            own = sum(name in names for name in members)
            self.bounds.check_brokers("brokers in clusters", new.source, own, len(members))

    def _addresses_of(self, source: str) -> set[str]:
        """The live addresses that a source registered; none of a source without a share."""
        if not self.bounds.has_share(source):
            return set()
        return {address for address, live in self._live.items() if live.source == source}

    def _topics_of_source(self, new: Registration) -> int | None:
        """The number of topics of the brokers of a source; None for one without a share."""
        if not self.bounds.has_share(new.source):
            return None
        names = {self._live[address].broker_name for address in self._addresses_of(new.source)}
        return sum(self._topic_counts[name] for name in names | {new.broker_name})

    def _forget_unplaced(self) -> None:
        """Forget addresses whose broker has registered another address since."""
        placed = {a for broker in self._brokers.values() for a in broker.broker_addrs.values()}
        for address in self._live.keys() - placed:
            del self._live[address]
            self._filters.pop(address, None)

    def _forget_empty(self) -> None:
        """Forget the cluster members that are not registered any more."""
        for cluster, members in list(self._clusters.items()):
            for name in members.keys() - self._brokers.keys():
                del members[name]
            if not members:
                del self._clusters[cluster]

    def _refuse_takeover(self, new: Registration) -> None:
        holder = self._holder(new.broker_name, new.broker_id)
        if holder is not None and not self._may_replace(holder, new):
            raise AddressTaken(
                f"{new.broker_name} id {new.broker_id} is live at {holder}; "
                f"{new.address} from {new.source} cannot replace it: two brokers need two names "
                "(brokerName) or two ids (brokerId)"
            )
        self._refuse_stranger(new.address, new.source)

    def _holder(self, broker_name: str, broker_id: int) -> str | None:
        broker = self._brokers.get(broker_name)
        return broker.broker_addrs.get(broker_id) if broker else None

    def _may_replace(self, holder: str, new: Registration) -> bool:
        """Whether a registration may take the id of the address that holds it: only if the broker
        there is dead or is the same broker. A second broker on its host has another connection."""
        live = self._live.get(holder)
        if live is None or holder == new.address or live.connection == new.connection:
            return self._may_change(holder, new.source)
        return self._now() - live.seen > self._expiry

    def _may_change(self, address: str, source: str) -> bool:
        """Whether a source may change an entry: its own, or the entry of a dead broker."""
        live = self._live.get(address)
        return live is None or live.source == source or self._now() - live.seen > self._expiry

    def _refuse_stranger(self, address: str, source: str) -> None:
        if not self._may_change(address, source):
            owner = self._live[address].source
            raise AddressTaken(
                f"the broker at {address} is live and registered from {owner}; "
                f"{source} cannot change it"
            )

    def _place(self, new: Registration, touched: set[str]) -> bool:
        """Record the address under its id; returns whether the broker or the id is new."""
        broker = self._brokers.get(new.broker_name)
        first = broker is None
        if broker is None:
            broker = BrokerData(new.broker_name, new.cluster)
            self._brokers[new.broker_name] = broker
        _log_arrival(new, broker.broker_addrs.get(new.broker_id))
        addresses = {
            broker_id: address
            for broker_id, address in broker.broker_addrs.items()
            if address != new.address or broker_id == new.broker_id
        }
        first = first or new.broker_id not in addresses
        addresses[new.broker_id] = new.address
        if addresses != broker.broker_addrs:
            ordered = dict(sorted(addresses.items()))
            self._brokers[new.broker_name] = replace(broker, broker_addrs=ordered)
            touched.update(self._topics_of(new.broker_name))
        return first

    def _has_news(self, new: Registration, first: bool) -> bool:
        known = self._live.get(new.address)
        is_news = first or known is None or known.version != new.version
        return new.broker_id == MASTER and is_news

    def _take_topics(self, new: Registration, touched: set[str]) -> Refused | None:
        """Apply new and changed topics; returns a refusal if some were left out."""
        name, known, counts = new.broker_name, self._topics, self._topic_counts
        of_source = self._topics_of_source(new)
        room, setting, why = self.bounds.room_for_topics(counts[name], of_source, counts.total())
        added = left_out = 0
        flaws: list[str] = []
        for topic, row in new.topics.items():
            queues = known.get(topic)
            old = queues.get(name) if queues is not None else None
            if old == row:
                continue
            if flaw := queues_flaw(topic, row[0], row[1]):
                flaws.append(flaw)
                continue
            if old is None:
                if added == room:
                    left_out += 1
                    continue
                added += 1
            if queues is None:
                known[topic] = {name: row}
            else:
                queues[name] = row
            touched.add(topic)
        counts[name] += added
        if flaws:
            return self.bounds.topics_refused(name, flaws)
        if not left_out:
            return None
        return self.bounds.topics_left_out(name, left_out, setting, why)

    def _take_filters(self, new: Registration) -> None:
        if new.filter_servers:
            self._filters[new.address] = new.filter_servers
        elif new.filter_servers is not None:
            self._filters.pop(new.address, None)

    def _master_of(self, new: Registration) -> LiveBroker | None:
        if new.broker_id == MASTER:
            return None
        address = self.master_address(new.broker_name)
        return self._live.get(address) if address else None

    def master_address(self, broker_name: str) -> str | None:
        """The address of a broker name's master, None if it has no master."""
        with self.lock:
            broker = self._brokers.get(broker_name)
            return broker.master if broker else None

    def query_version(
        self, address: str, version: DataVersion, source: str
    ) -> tuple[bool, DataVersion | None]:
        """Whether a broker's topics changed, and the known version.

        If they did not change, the query counts as a sign of life. Raises AddressTaken if another
        host asks, because the query would keep a dead broker alive.
        """
        with self.lock:
            self._refuse_stranger(address, source)
            live = self._live.get(address)
            if live is None:
                return True, None
            if live.version == version:
                self._live[address] = dataclasses.replace(live, seen=self._now())
            return live.version != version, live.version

    def unregister_from(
        self, source: str, broker_name: str, broker_id: int, address: str, cluster: str
    ) -> None:
        """Call `unregister` for a peer. Raises AddressTaken; then nothing has changed."""
        with self.lock:
            self._refuse_stranger(address, source)
            holder = self._holder(broker_name, broker_id)
            if holder is not None:  # `unregister` removes by id, whatever the address
                self._refuse_stranger(holder, source)
                log.info(
                    "broker %s id %d at %s left: it unregistered", broker_name, broker_id, holder
                )
            self.unregister(broker_name, broker_id, address, cluster)

    def unregister(self, broker_name: str, broker_id: int, address: str, cluster: str) -> None:
        """Forget a broker address, and everything that only this broker had."""
        with self.lock:
            self._live.pop(address, None)
            self._filters.pop(address, None)
            touched: set[str] = set()
            broker = self._brokers.get(broker_name)
            if broker is not None:
                self._drop_address(broker, broker_id, cluster, touched)
            if touched:
                self._changed(touched)

    def _drop_address(
        self, broker: BrokerData, broker_id: int, cluster: str, touched: set[str]
    ) -> None:
        name = broker.broker_name
        touched.update(self._topics_of(name))
        rest = {key: value for key, value in broker.broker_addrs.items() if key != broker_id}
        if rest:
            self._brokers[name] = replace(broker, broker_addrs=rest)
            return
        del self._brokers[name]
        members = self._clusters.get(cluster, {})
        members.pop(name, None)
        if not members:
            self._clusters.pop(cluster, None)
        del self._topic_counts[name]
        for topic in self._topics_of(name):
            del self._topics[topic][name]
            if not self._topics[topic]:
                del self._topics[topic]

    def close(self, connection: int, remote: str) -> None:
        """Forget the broker of a closed connection, or the broker whose address is the peer's."""
        with self.lock:
            gone = [a for a, live in self._live.items() if live.connection == connection]
            for address in gone or [remote]:
                self._forget(address)

    def _forget(self, address: str) -> None:
        for broker in list(self._brokers.values()):
            for broker_id, known in list(broker.broker_addrs.items()):
                if known == address:
                    log.warning(
                        "removed broker %s id %d at %s, as its connection closed or it was silent",
                        broker.broker_name,
                        broker_id,
                        address,
                    )
                    self.unregister(broker.broker_name, broker_id, address, broker.cluster or "")
        self._live.pop(address, None)
        self._filters.pop(address, None)

    def expire(self) -> list[int]:
        """Forget brokers that were silent for too long; returns their connections, to close."""
        with self.lock:
            limit = self._now() - self._expiry
            dead = [(a, live) for a, live in self._live.items() if live.seen < limit]
            for address, _ in dead:
                self._forget(address)
            return [live.connection for _, live in dead]

    def route(
        self, topic: str
    ) -> tuple[list[BrokerData], Mapping[str, Row], dict[str, list[str]]] | None:
        """A topic's brokers, rows by broker name, and filter servers; None if it has no brokers.

        The caller holds the lock while it reads the rows, because they belong to the table.
        """
        with self.lock:
            queues = self._topics.get(topic, {})
            brokers = [self._brokers[name] for name in queues if name in self._brokers]
            if not queues or not brokers:
                return None
            filters = self._filters and {
                address: self._filters[address]
                for broker in brokers
                for address in broker.broker_addrs.values()
                if address in self._filters
            }
            return brokers, queues, filters

    def wipe_write(self, broker_name: str) -> int:
        """Remove the write permission from a broker's queues; returns the number of topics."""
        with self.lock:
            return self._set_perm(broker_name, lambda perm: perm & ~PERM_WRITE)

    def add_write(self, broker_name: str) -> int:
        """Set only read and write permission on a broker's queues; returns the number of topics."""
        with self.lock:
            return self._set_perm(broker_name, lambda _: 6)

    def _set_perm(self, broker_name: str, change: Callable[[int], int]) -> int:
        topics = self._topics_of(broker_name)
        for topic in topics:
            reads, writes, perm, sys_flag = self._topics[topic][broker_name]
            self._topics[topic][broker_name] = (reads, writes, change(perm), sys_flag)
        if topics:
            self._changed(topics)
        return len(topics)

    def delete_topic(self, topic: str, cluster: str | None) -> None:
        """Forget a topic on all brokers, or only on the brokers of a cluster."""
        with self.lock:
            queues = self._topics.pop(topic, {})
            members = self._clusters.get(cluster, {}) if cluster else queues
            rest = {name: row for name, row in queues.items() if name not in members}
            self._topic_counts.subtract(queues.keys() - rest.keys())
            if rest:
                self._topics[topic] = rest
            self._changed([topic])

    def _topics_of(self, broker_name: str) -> list[str]:
        return [topic for topic, queues in self._topics.items() if broker_name in queues]

    def topics(self) -> list[str]:
        """All topic names."""
        with self.lock:
            return list(self._topics)

    def topics_of_cluster(self, cluster: str) -> list[str]:
        """The topics with a queue on a broker of the cluster, without duplicates."""
        with self.lock:
            members = self._clusters.get(cluster, {})
            return [t for t, queues in self._topics.items() if members.keys() & queues.keys()]

    def unit_topics(self, wanted: Callable[[int], bool]) -> list[str]:
        """The topics whose first row has a wanted system flag (311 to 313)."""
        with self.lock:
            return [
                topic
                for topic, queues in self._topics.items()
                if wanted(next(iter(queues.values()))[_SYS_FLAG])
            ]

    def system_topics(self) -> tuple[list[str], str | None]:
        """The names of clusters and brokers, which are topics too, and a broker's address (304)."""
        with self.lock:
            names = dict.fromkeys(name for m in self._clusters.values() for name in m)
            names.update(dict.fromkeys(self._clusters))
            first = next(iter(self._brokers.values()), None)
            return list(names), next(iter(first.broker_addrs.values())) if first else None

    def clusters(self) -> ClusterInfo:
        """All brokers and clusters (106)."""
        with self.lock:
            return ClusterInfo(
                dict(self._brokers),
                {name: list(members) for name, members in self._clusters.items()},
            )


def _log_arrival(new: Registration, before: str | None) -> None:
    """Log a broker id that is new, or that has another address. before: its address until now."""
    if before is None:
        log.info(
            "broker %s id %d joined cluster %s at %s, registered from %s with %d topics",
            *(new.broker_name, new.broker_id, new.cluster, new.address, new.source),
            len(new.topics),
        )
    elif before != new.address:
        log.warning(
            "broker %s id %d moved from %s to %s, registered from %s; if both run, two brokers "
            "have the same brokerName and brokerId: change one of them",
            *(new.broker_name, new.broker_id, before, new.address, new.source),
        )
