"""The link to one NameServer, which registers the broker's topics there and keeps them current."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from mqclient.engine.transport import Transport
from mqcommon.wire.bodies.common import DataVersion, KVTable
from mqcommon.wire.bodies.topics import TopicConfigSerializeWrapper
from mqcommon.wire.frame import Frame
from mqcommon.wire.headers.namesrv import (
    QueryDataVersionResponseHeader,
    RegisterBrokerResponseHeader,
)
from mqserver.broker.state.topics import Topics
from mqserver.config.settings import BrokerSettings
from mqserver.registration.requests import Requests

log = logging.getLogger("mqserver.broker")

RETRY_S = 1.0
"""First pause before a NameServer that did not answer is asked again; it doubles up to the
period."""
LOST_S = 0.05
"""Pause before the broker connects again to a NameServer that closed the connection."""
PERIOD_MIN_S, PERIOD_MAX_S = 10.0, 60.0
MASTERLESS_S = 1.0
"""Pause until a slave registers again while the NameServer knows no live master of it."""


@dataclass(frozen=True, slots=True)
class LinkContext:
    """The state that all links share.

    settings: called each time, because settings may change online. collect: tells every link which
    topics changed, up to the version that it returns. ordered: gets the key-values that a
    NameServer answered. master_said: called when a NameServer named the master of a slave.
    """

    transport: Transport
    requests: Requests
    topics: Topics
    settings: Callable[[], BrokerSettings]
    collect: Callable[[], DataVersion]
    ordered: Callable[[Link, Mapping[str, str]], None]
    master_said: Callable[[], None]

    @property
    def period(self) -> float:
        """Seconds between registrations of the whole table."""
        period = self.settings().register_name_server_period / 1000
        return min(max(period, PERIOD_MIN_S), PERIOD_MAX_S)

    @property
    def timeout(self) -> float:
        """Longest wait for a NameServer's answer, in seconds."""
        return self.settings().register_broker_timeout_mills / 1000


class Link:
    """Registers with one NameServer, one registration at a time.

    A NameServer ignores the rows of a version that it already has. So each registration holds all
    changes up to its version, and the next registration waits for its answer. The link sends the
    whole table at first, after a failure and once in each period, and otherwise the rows that
    changed. After such partial registrations the whole table gets a version of its own, so that it
    replaces changes that were made at the NameServer alone (205, 327).

    trouble: why the NameServer did not answer the last request, None if it did. is_late: a request
    gave up waiting for the NameServer, which has not answered since. master: what the NameServer
    said last about the master of this slave.
    """

    def __init__(self, address: str, context: LinkContext) -> None:
        self.address = address
        self.trouble: str | None = None
        self.is_late = False
        self.master = RegisterBrokerResponseHeader()
        self._context = context
        self._knows_all = False
        self._due_at = 0.0
        self._changed: set[str] = set()
        self._has_parts = False
        self._is_stopping = False
        self._wake = asyncio.Event()
        self._turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._first = self._turn
        self._task = asyncio.create_task(self._follow())

    @property
    def first(self) -> asyncio.Future[None]:
        """Done when the NameServer has answered the first request, or has failed to."""
        return self._first

    @property
    def is_prompt(self) -> bool:
        """Whether the NameServer has answered everything so far, so that waiting is worth it."""
        return self._knows_all and self.trouble is None and not self.is_late

    def changed(self, topics: Iterable[str]) -> None:
        """Note topics that are new or have changed."""
        self._changed.update(topics)

    def register_soon(self) -> asyncio.Future[None]:
        """Ask for a registration of the changes; done when the NameServer answered or failed to."""
        self._wake.set()
        return self._turn

    def register_all(self) -> None:
        """Ask for a registration of the whole table, now."""
        self._due_at = 0.0
        self._wake.set()

    def lost(self) -> None:
        """The connection closed: the NameServer may have restarted and know nothing."""
        self._knows_all = False
        asyncio.get_running_loop().call_later(LOST_S, self._return)

    def _return(self) -> None:
        if self.trouble is None:
            self._wake.set()

    def stop(self) -> None:
        """Stop registering, and release the callers that wait."""
        self._is_stopping = True  # Python 3.11's wait_for may lose a cancellation
        self._task.cancel()
        if not self._turn.done():
            self._turn.set_result(None)

    async def _follow(self) -> None:
        retry, loop = RETRY_S, asyncio.get_running_loop()
        while not self._is_stopping:
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
        """Register; log when the NameServer stops answering and when it answers again."""
        try:
            await self._register()
        except Exception as error:
            if self.trouble is None:
                log.warning(
                    "NameServer %s did not take the registration: %s; the broker tries again",
                    self.address,
                    error,
                )
            self.trouble = str(error)
            self._knows_all = False
            return
        if self.trouble is not None:
            log.warning("NameServer %s answers again", self.address)
        self.trouble = None
        self.is_late = False

    async def _register(self) -> None:
        context = self._context
        if context.settings().is_slave:
            await self._register_slave()
            return
        version = context.collect()
        now = asyncio.get_running_loop().time()
        if now >= self._due_at or not self._knows_all:
            forced = not self._knows_all or context.settings().force_register
            if self._has_parts:
                context.topics.bump()  # the NameServer ignores the rows of a version that it has
            whole = context.topics.wrapper()
            self._changed.clear()  # the whole table includes them
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

    async def _register_slave(self) -> None:
        """Register, and learn where the master is. The topics are the master's to register."""
        context = self._context
        await self._send(context.topics.wrapper())
        pause = context.period if self.master.master_addr else MASTERLESS_S
        self._due_at = asyncio.get_running_loop().time() + pause
        self._knows_all = True
        context.master_said()

    async def _send(self, topics: TopicConfigSerializeWrapper) -> None:
        reply = await self._call(self._context.requests.register(topics))
        if reply.code:
            raise ConnectionError(f"the NameServer answered code {reply.code}: {reply.remark}")
        self.master = RegisterBrokerResponseHeader.from_fields(reply.fields)
        if reply.body:
            self._context.ordered(self, KVTable.from_json(reply.body).table)

    async def _is_changed(self, whole: TopicConfigSerializeWrapper) -> bool:
        """Ask whether the NameServer has another version of the table (code 322)."""
        reply = await self._call(self._context.requests.ask_version(whole.data_version))
        return reply.code != 0 or QueryDataVersionResponseHeader.from_fields(reply.fields).changed

    async def unregister(self, timeout: float) -> None:
        """Unregister the broker, if the NameServer answers. Raises nothing.

        A registration that was sent ends first: a NameServer might take it after the
        unregistration.
        """
        self._is_stopping = True
        self._wake.set()
        await asyncio.wait([self._task], timeout=timeout / 2)
        self.stop()
        if self.trouble is None:
            with suppress(Exception):  # the NameServer also forgets it when the connection closes
                request = self._context.requests.unregister()
                await self._context.transport.call(self.address, request, timeout / 2)

    async def _call(self, request: Frame) -> Frame:
        return await self._context.transport.call(self.address, request, self._context.timeout)
