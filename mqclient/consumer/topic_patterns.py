"""Subscriptions by pattern: finds the topics at the NameServer whose whole names match.

RocketMQ's brokers know topics only, so each topic that is found becomes a subscription of its own.
Members of a group find a new topic at different times; until all have, its queues may wait.
"""

import asyncio
import contextlib
import logging
import re
from collections import Counter
from collections.abc import Callable

from mqclient.consumer.subscription import Subscription
from mqclient.engine.client import Client
from mqclient.errors import RocketMQError
from mqcommon.names import REPLY_SUFFIX, is_internal_topic
from mqcommon.wire.calls import namesrv_calls

__all__ = ["TopicPatterns"]

log = logging.getLogger(__name__)
TOPICS_MAX = 1000
"""Most topics of all patterns of a consumer: every heartbeat lists them, and brokers take 1 MiB."""
ABSENT_MAX = 3
"""Successive answers without a topic until the consumer leaves it: a NameServer that was just
started learns the topics of its brokers one after the other."""
RETRY_S = 1.0
"""Seconds until a pattern whose topics are not known yet is looked for again."""


class TopicPatterns:
    """The patterns of one consumer. keep: adds a subscription; drop: removes the one of a topic."""

    def __init__(
        self,
        client: Client,
        subscriptions: dict[str, Subscription],
        keep: Callable[[Subscription], None],
        drop: Callable[[str], None],
    ) -> None:
        self._client = client
        self._subscriptions = subscriptions
        self._keep, self._drop = keep, drop
        self._wanted: dict[re.Pattern[str], Subscription] = {}
        self._looked: set[re.Pattern[str]] = set()
        """Patterns whose topics were looked for at least once."""
        self._found: dict[str, Subscription] = {}
        """Topics on the wire, with the subscription of the pattern that found each."""
        self._left: set[str] = set()
        """Topics that the program unsubscribed by name."""
        self._absent: Counter[str] = Counter()
        self._is_full = False
        self._again = asyncio.Event()
        """Ends the pause before the next look."""
        self._ended_look = asyncio.Event()
        self.trouble: str | None = None
        """The last error; None after the next success."""

    def __bool__(self) -> bool:
        return bool(self._wanted)

    def add(self, subscription: Subscription) -> None:
        """Add a pattern, or replace its filter and handler."""
        assert subscription.pattern is not None
        self._wanted[subscription.pattern] = subscription
        self._again.set()

    def remove(self, pattern: re.Pattern[str]) -> None:
        """Drop a pattern and its topics; an unknown one is ignored."""
        ended = self._wanted.pop(pattern, None)
        self._looked.discard(pattern)
        for topic in [one for one, item in self._found.items() if item.pattern == pattern]:
            del self._found[topic]
            self._drop(topic)
        if ended is not None:
            self._again.set()  # another pattern may match its topics

    def is_named(self, topic: str, subscribed: bool) -> None:
        """Leave a topic alone that the program subscribed, or unsubscribed, by its name."""
        self._found.pop(topic, None)
        (self._left.discard if subscribed else self._left.add)(topic)

    async def look(self) -> bool:
        """Ask the NameServer, and follow what has changed; False if nothing has.

        Raises BrokerError, UnreachableError, ClientTimeout.
        """
        self._again.clear()
        if not self._wanted:
            return False
        cluster = await self._client.invoke_namesrv(namesrv_calls.cluster_info())
        topics = await self._client.invoke_namesrv(namesrv_calls.topic_list())
        if not cluster.broker_addr_table:
            self.trouble = "no broker is registered at the NameServer"
            return False
        clusters = set(cluster.cluster_addr_table)
        named = clusters | set(cluster.broker_addr_table) | {c + REPLY_SUFFIX for c in clusters}
        users = {one for one in topics.topic_list if not is_internal_topic(one)} - named
        changed = self._take(self._matches(users), users)
        self._looked.update(self._wanted)
        self.trouble = None
        self._ended_look.set()
        return changed

    async def follow(self, interval: float, announce: Callable[[], None]) -> None:
        """Look again every `interval` seconds while there are patterns, and when they change."""
        while True:
            pause = interval if self._wanted.keys() <= self._looked else min(interval, RETRY_S)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause if self._wanted else None):
                    await self._again.wait()
            try:
                if await self.look():
                    announce()
            except RocketMQError as error:
                level = logging.DEBUG if self.trouble == str(error) else logging.WARNING
                log.log(level, "looking for topics by pattern failed: %s", error)
                self.trouble = str(error)

    async def looked(self) -> None:
        """Wait until the topics of every pattern were looked for once."""
        while not self._wanted.keys() <= self._looked:
            self._ended_look.clear()
            await self._ended_look.wait()

    def _matches(self, topics: set[str]) -> dict[str, Subscription]:
        """The pattern of each topic that matches one, of `TOPICS_MAX` topics at most."""
        names, matches = self._client.namespace, dict[str, Subscription]()
        for topic in sorted(topics, key=lambda topic: (topic not in self._found, topic)):
            shown = names.unwrap(topic)
            is_explicit = topic in self._subscriptions and topic not in self._found
            if is_explicit or topic in self._left or (names and shown == topic):
                continue
            found = (item for pattern, item in self._wanted.items() if pattern.fullmatch(shown))
            item = next(found, None)
            if item is None:
                continue
            if len(matches) == TOPICS_MAX:
                if not self._is_full:
                    text = "patterns match more than %d topics; %s and others are not read"
                    log.warning(text, TOPICS_MAX, shown)
                self._is_full = True
                return matches
            matches[topic] = item
        self._is_full = False
        return matches

    def _take(self, matches: dict[str, Subscription], listed: set[str]) -> bool:
        """Subscribe to new topics, leave vanished ones; False if nothing has changed."""
        changed = False
        for topic in [one for one in self._found if one not in matches]:
            self._absent[topic] += 1
            if topic in listed or self._absent[topic] >= ABSENT_MAX:
                log.info("topic %s no longer matches a pattern; leaving it", topic)
                del self._found[topic], self._absent[topic]
                self._drop(topic)
                changed = True
        for topic, item in matches.items():
            self._absent.pop(topic, None)
            if self._found.get(topic) is item:
                continue
            made = item.for_topic(topic)
            if item.pattern in self._looked:  # it appeared later: read it from its beginning
                made.initial = frozenset()
            self._found[topic] = item
            self._keep(made)
            changed = True
        return changed
