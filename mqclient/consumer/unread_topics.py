"""Warns about subscribed topics that have no queue to read: they do not exist, or forbid it."""

import logging
from collections.abc import Container

from mqclient.consumer.subscription import Subscription
from mqclient.engine.client import Client
from mqclient.engine.routes import TopicRoute
from mqcommon.names import RETRY_PREFIX

__all__ = ["UnreadTopics"]

log = logging.getLogger(__name__)


class UnreadTopics:
    """The topics of one consumer that it cannot read now, and why.

    Each is logged once, and again only after it could be read meanwhile.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._missing: dict[str, str] = {}
        self._forbidden: set[str] = set()

    async def note(self, subscription: Subscription, route: TopicRoute | None) -> str | None:
        """Why a topic has no queue to read, and the next step; None if there is no such trouble.

        Brokers make a retry topic when they need it, and a pattern finds what exists: both may
        have no route. Raises UnreachableError, ClientTimeout.
        """
        topic = subscription.data.topic
        if route is None:
            if topic.startswith(RETRY_PREFIX) or subscription.by_pattern:
                return None
            return await self._note_missing(topic)
        self._missing.pop(topic, None)
        if route.subscribe:
            self._forbidden.discard(topic)
            return None
        why = str(self._client.routes.not_readable(topic))
        if topic not in self._forbidden:
            self._forbidden.add(topic)
            log.warning("the consumer gets no messages now: %s", why)
        return why

    async def _note_missing(self, topic: str) -> str:
        if topic not in self._missing:
            why = "it does not exist, or its name is misspelt"
            error = await self._client.routes.no_route(topic, why=why)
            self._missing[topic] = str(error)
            text = "the consumer gets no messages of topic %s until it exists: %s"
            log.warning(text, self._client.namespace.unwrap(topic), error)
        return self._missing[topic]

    def keep(self, topics: Container[str]) -> None:
        """Forget topics that are no longer subscribed to."""
        self._missing = {one: why for one, why in self._missing.items() if one in topics}
        self._forbidden = {one for one in self._forbidden if one in topics}
