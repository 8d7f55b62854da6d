"""One NameServer and what it was told of this broker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from mqclient.transport import Transport
from mqclient.wire.bodies.common import DataVersion, KVTable
from mqclient.wire.bodies.topics import TopicConfigSerializeWrapper
from mqclient.wire.frame import Frame
from mqclient.wire.headers.namesrv import QueryDataVersionResponseHeader
from mqserver.broker.registration import Requests
from mqserver.broker.state.topics import Topics
from mqserver.config.settings import BrokerSettings

log = logging.getLogger("mqserver.broker")

RETRY_S = 1.0
"""A NameServer that did not answer is asked again after this, doubling up to the period."""
LOST_S = 0.05
"""A NameServer that closed the connection is called again after this."""
PERIOD_MIN_S, PERIOD_MAX_S = 10.0, 60.0


@dataclass(frozen=True, slots=True)
class LinkContext:
    """What all links share.

    settings: asked each time, because it may change online. collect: tells every link which topics
    changed, up to the version that it returns. ordered: takes the key-values that a NameServer
    answered.
    """

    transport: Transport
    requests: Requests
    topics: Topics
    settings: Callable[[], BrokerSettings]
    collect: Callable[[], DataVersion]
    ordered: Callable[[Link, Mapping[str, str]], None]

    @property
    def period(self) -> float:
        """Seconds between registrations of the whole table."""
        period = self.settings().register_name_server_period / 1000
        return min(max(period, PERIOD_MIN_S), PERIOD_MAX_S)

    @property
    def timeout(self) -> float:
        """Seconds that a NameServer has to answer."""
        return self.settings().register_broker_timeout_mills / 1000


class Link:
    """Registers with one NameServer, one registration at a time.

    A NameServer takes no rows of a version that it has. So each registration holds all that
    changed up to its version, and the next one waits for its answer: the whole table at first,
    after a failure and in each period, else the rows that changed. After such parts the whole
    table has a version of its own: it undoes what was changed at the NameServer alone (205, 327).

    trouble: why the NameServer did not answer the last time, None if it did. is_late: it has not
    answered yet when somebody stopped waiting for it.
    """

    def __init__(self, address: str, context: LinkContext) -> None:
        self.address = address
        self.trouble: str | None = None
        self.is_late = False
        self._context = context
        self._knows_all = False
        self._due_at = 0.0
        self._changed: set[str] = set()
        self._has_parts = False
        self._wake = asyncio.Event()
        self._turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._first = self._turn
        self._task = asyncio.create_task(self._follow())

    @property
    def first(self) -> asyncio.Future[None]:
        """Done once the NameServer has answered for the first time, or has failed to."""
        return self._first

    @property
    def is_prompt(self) -> bool:
        """Whether the NameServer has answered everything so far: it is worth waiting for."""
        return self._knows_all and self.trouble is None and not self.is_late

    def changed(self, topics: Iterable[str]) -> None:
        """These topics are new, or others than they were."""
        self._changed.update(topics)

    def register_soon(self) -> asyncio.Future[None]:
        """Have what changed registered; done once the NameServer has answered, or has failed to."""
        self._wake.set()
        return self._turn

    def register_all(self) -> None:
        """Have the whole table registered now."""
        self._due_at = 0.0
        self._wake.set()

    def lost(self) -> None:
        """The connection is gone: the NameServer may be back soon, and know nothing."""
        self._knows_all = False
        asyncio.get_running_loop().call_later(LOST_S, self._return)

    def _return(self) -> None:
        if self.trouble is None:
            self._wake.set()

    def stop(self) -> None:
        """Register no more, and let nobody wait."""
        self._task.cancel()
        if not self._turn.done():
            self._turn.set_result(None)

    async def _follow(self) -> None:
        retry, loop = RETRY_S, asyncio.get_running_loop()
        while True:
            turn, self._turn = self._turn, loop.create_future()
            self._wake.clear()
            try:
                await self._take_turn()
            finally:
                if not turn.done():
                    turn.set_result(None)
            if self.trouble is None:
                delay, retry = self._due_at - loop.time(), RETRY_S
            else:
                delay, retry = min(retry, self._context.period), retry * 2
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), max(delay, 0.0))

    async def _take_turn(self) -> None:
        """Register what there is; log when the NameServer stops and when it starts answering."""
        try:
            await self._register()
        except Exception as error:
            if self.trouble is None:
                log.warning("NameServer %s: %s; will try again", self.address, error)
            self.trouble = str(error)
            self._knows_all = False
            return
        if self.trouble is not None:
            log.warning("NameServer %s answers again", self.address)
        self.trouble = None
        self.is_late = False

    async def _register(self) -> None:
        context = self._context
        version = context.collect()
        now = asyncio.get_running_loop().time()
        if now >= self._due_at or not self._knows_all:
            forced = not self._knows_all or context.settings().force_register
            if self._has_parts:
                context.topics.bump()  # or the NameServer, which has the version, takes no row
            whole = context.topics.wrapper()
            self._changed.clear()  # the whole table has them
            self._due_at = now + context.period
            if forced or await self._is_changed(whole):
                await self._send(whole)
            self._has_parts = False
            self._knows_all = True
            return
        rows = {topic: row for topic in self._changed if (row := context.topics.get(topic))}
        self._changed.clear()
        if rows:
            self._has_parts = True
            await self._send(TopicConfigSerializeWrapper(rows, version))

    async def _send(self, topics: TopicConfigSerializeWrapper) -> None:
        reply = await self._call(self._context.requests.register(topics))
        if reply.code:
            raise ConnectionError(f"it answered code {reply.code}: {reply.remark}")
        if reply.body:
            self._context.ordered(self, KVTable.from_json(reply.body).table)

    async def _is_changed(self, whole: TopicConfigSerializeWrapper) -> bool:
        """Ask whether the NameServer has this version already (code 322)."""
        reply = await self._call(self._context.requests.ask_version(whole.data_version))
        return reply.code != 0 or QueryDataVersionResponseHeader.from_fields(reply.fields).changed

    async def unregister(self, timeout: float) -> None:
        """Take the broker back, if the NameServer answers; raises nothing."""
        self.stop()
        if self.trouble is None:
            with suppress(Exception):  # it forgets the broker with the connection
                request = self._context.requests.unregister()
                await self._context.transport.call(self.address, request, timeout)

    async def _call(self, request: Frame) -> Frame:
        return await self._context.transport.call(self.address, request, self._context.timeout)
