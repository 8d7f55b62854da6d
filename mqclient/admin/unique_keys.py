"""Finds messages by key: the unique key, which a send returns as msg_id, or a user's key."""

from __future__ import annotations

import asyncio

from mqclient.admin.channel import Channel, reachable
from mqclient.errors import NoRouteError, NotFoundError, ProtocolError, RocketMQError
from mqcommon.message import ReceivedMessage, decode_reply
from mqcommon.names import is_of_a_group
from mqcommon.wire.calls import message_calls, namesrv_calls
from mqcommon.wire.headers.pull import QueryMessageRequestHeader

__all__ = ["QUERY_COUNT", "UniqueKeys"]

QUERY_COUNT = 64
"""Most messages that a query for a key returns by default."""

COPIES_MAX = 32
"""RocketMQ's limit: a message that is sent again after a timeout has the same key."""
TOPICS_MAX = 2_000
"""Most topics that are searched for a key without a topic."""
AT_ONCE = 16
_ALL_TIME = (0, (1 << 63) - 1)


class UniqueKeys:
    """Looks unique keys up in the brokers' index, as RocketMQ's `viewMessage` does."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    async def copies(self, topic: str, key: str) -> list[ReceivedMessage]:
        """The copies of a message in one topic, oldest first; see `Messages.copies`."""
        found = await self._in(topic, key)
        if not found:
            words = f"no message with the unique key {key} in topic {topic}"
            raise NotFoundError(f"{words}; it may have expired")
        return sorted(found, key=lambda message: message.store_timestamp_ms)

    async def find(self, key: str, topic: str | None) -> ReceivedMessage:
        """The copy of a message that was stored first. topic: None searches all topics.

        Raises NotFoundError when it is not found, NoRouteError without the topic.
        """
        found = await (self._in_all_topics(key) if topic is None else self._in(topic, key))
        if not found:
            where = "any topic" if topic is None else f"topic {topic}"
            words = f"no message with the unique key {key} in {where}"
            raise NotFoundError(f"{words}; it may have expired")
        return min(found, key=lambda message: message.store_timestamp_ms)

    async def query(
        self, topic: str, key: str, max_count: int, begin_ms: int, end_ms: int
    ) -> list[ReceivedMessage]:
        """Messages of a topic with a key that users gave, oldest first; see `Messages.query`.

        The index holds hash codes of keys, so each message found is compared with the key.
        """
        found = await self._found(
            QueryMessageRequestHeader(
                topic=topic,
                key=key,
                max_num=max_count,
                begin_timestamp=begin_ms,
                end_timestamp=end_ms,
            )
        )
        found = [m for m in found if m.topic == topic and key in m.keys]
        if not found:
            words = f"no message with the key {key} in topic {topic}"
            raise NotFoundError(f"{words}; it may have expired")
        return sorted(found, key=lambda message: message.store_timestamp_ms)[:max_count]

    async def _in(self, topic: str, key: str) -> list[ReceivedMessage]:
        """The copies in one topic, of all its brokers.

        The field _UNIQUE_KEY_QUERY is left out: it only has brokers take 32 for max_num, and with
        an account RocketMQ 4.9.7 takes it out of the signed content, while later ones do not.
        """
        header = QueryMessageRequestHeader(
            topic=topic,
            key=key,
            max_num=COPIES_MAX,
            begin_timestamp=_ALL_TIME[0],
            end_timestamp=_ALL_TIME[1],
        )
        return [message for message in await self._found(header) if message.msg_id == key]

    async def _found(self, header: QueryMessageRequestHeader) -> list[ReceivedMessage]:
        """The messages that the index of each broker of a topic finds."""
        found: list[ReceivedMessage] = []
        for data in (await self._channel.route(header.topic)).broker_datas:
            if address := reachable(data):
                body = await self._channel.ask_broker(address, message_calls.query_message(header))
                whole, damaged = decode_reply(body, data.broker_name)
                if damaged and not whole:
                    raise ProtocolError(f"a message is damaged: {damaged[0]}", data.broker_name)
                found += whole
        return found

    async def _in_all_topics(self, key: str) -> list[ReceivedMessage]:
        """The copies in the first topics that have any; topics of applications come first."""
        topics = (await self._channel.ask_namesrv(namesrv_calls.topic_list())).topic_list
        if len(topics) > TOPICS_MAX:
            raise ValueError(
                f"{key} is a unique key, not an offset id, and there are {len(topics)} topics to "
                f"search; name the topic: mqadmin queryMsgById -n {self._channel.namesrv} "
                f"-i {key} -t TOPIC"
            )
        room = asyncio.Semaphore(AT_ONCE)
        errors: list[RocketMQError] = []

        async def ask(topic: str) -> list[ReceivedMessage]:
            async with room:
                try:
                    return await self._in(topic, key)
                except NoRouteError:
                    return []  # the topic was deleted meanwhile
                except RocketMQError as error:
                    errors.append(error)
                    return []

        own = {topic for topic in topics if not is_of_a_group(topic)}
        for group in (sorted(own), sorted(set(topics) - own)):
            found = [message for part in await asyncio.gather(*map(ask, group)) for message in part]
            if found:
                return found
        if errors:
            raise errors[0]
        return []
