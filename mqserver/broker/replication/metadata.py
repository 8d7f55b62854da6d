"""The state that a slave copies from its master by requests (`SlaveSynchronize`).

The log brings the messages; topics, groups, committed offsets and the progress of delayed messages
come this way, and from a master of ours also consumer filters and which messages were deleted.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from mqcommon import fastjson
from mqcommon.wire.bodies.base import Body
from mqcommon.wire.bodies.common import KVTable
from mqcommon.wire.bodies.groups import SubscriptionGroupWrapper
from mqcommon.wire.bodies.offsets import (
    ConsumerOffsetSerializeWrapper,
    DelayOffsetSerializeWrapper,
)
from mqcommon.wire.bodies.replication import SlaveState
from mqcommon.wire.bodies.topics import TopicConfigSerializeWrapper
from mqcommon.wire.codes import RequestCode, ResponseCode
from mqcommon.wire.frame import Frame
from mqserver.broker.context import BrokerContext
from mqserver.broker.replication.offsets import MasterOffsets
from mqserver.broker.state.reading import read_filters
from mqserver.config.table import LONG_MAX

if TYPE_CHECKING:
    from mqserver.broker.acl.control import AccessControl

__all__ = ["Ask", "MasterFigures", "MetadataCopy", "master_figures"]

Ask = Callable[[RequestCode], Awaitable[Frame]]
"""Sends a request without header and body to the master; returns its reply."""

B = TypeVar("B", bound=Body)
log = logging.getLogger("mqserver.broker.replication")
_NO_FILTERS = (
    "the SQL92 filters of the master are too large for one reply and are not copied; after a "
    "promotion consumers send them again. See maxFilterBytes"
)
_FILTERS_COME = "the SQL92 filters of the master are copied again"
DELAY_FILE = "delayOffset.json"
"""The store's file; a store that is a slave's does not write it."""


class MetadataCopy:
    """Copies the state of the master that `ask` reaches."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._offsets = MasterOffsets(context.store)
        self._delays = b""
        self._life_without_own = ""
        """The life of a master of RocketMQ, which does not know our own request."""
        self._has_filters = True
        context.saver.add(DELAY_FILE, lambda: self._delays)

    async def round(self, ask: Ask, life: str) -> None:
        """Copy all once, in RocketMQ's order, then what only a master of ours tells.

        life: differs after a restart of the master. Raises what `ask` raises, ValueError for a
        reply that is not understood, or ConnectionError for a refusal; what was copied until then
        stays.
        """
        context = self._context
        topics = RequestCode.GET_ALL_TOPIC_CONFIG
        context.topics.copy(await _body(ask, topics, TopicConfigSerializeWrapper))
        offsets = RequestCode.GET_ALL_CONSUMER_OFFSET
        copied = await _body(ask, offsets, ConsumerOffsetSerializeWrapper)
        self._offsets.take(copied.offset_table, life)
        self._save_delays((await _reply(ask, RequestCode.GET_ALL_DELAY_OFFSET)).body)
        groups = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
        context.groups.copy(await _body(ask, groups, SubscriptionGroupWrapper))
        if life != self._life_without_own:
            self._take_own(await ask(RequestCode.GET_SLAVE_STATE), life)
        if context.settings.ha_copy_acl and context.acl is not None:
            self._take_access(await _reply(ask, RequestCode.GET_ACCESS_FILES), context.acl)

    def _take_access(self, reply: Frame, acl: AccessControl) -> None:
        content = fastjson.loads(reply.body)
        if not isinstance(content, dict) or not all(
            isinstance(of_file, dict) for of_file in content.values()
        ):
            raise ValueError("the access files of the master are no table of tables")
        acl.copy(content)

    def _take_own(self, reply: Frame, life: str) -> None:
        """Take consumer filters and deleted topics of a master of ours."""
        if reply.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            self._life_without_own = life
            return
        state = SlaveState.from_json(_checked(reply, RequestCode.GET_SLAVE_STATE).body)
        if state.consumer_filter:
            self._context.filters.copy(read_filters(state.consumer_filter.encode()).content)
        if self._has_filters != bool(state.consumer_filter):
            self._has_filters = not self._has_filters
            log.warning(_FILTERS_COME if self._has_filters else _NO_FILTERS)
        self._context.store.take_deletions(state.deletions)

    def _save_delays(self, text: bytes) -> None:
        """Keep how far the master delivered delayed messages, for the time when this broker is a
        master: it delivers none itself."""
        DelayOffsetSerializeWrapper.from_json(text)
        if text != self._delays:
            self._delays = text
            self._context.saver.mark(DELAY_FILE)


class MasterFigures(NamedTuple):
    """What a master says of itself: the extent of its log, and a text that differs after its
    restart."""

    min_offset: int
    max_offset: int
    life: str


async def master_figures(ask: Ask) -> MasterFigures:
    """Ask for the master's figures (code 28). Raises as `MetadataCopy.round` does."""
    table = (await _body(ask, RequestCode.GET_BROKER_RUNTIME_INFO, KVTable)).table
    low, high = (_offset(table, key) for key in ("commitLogMinOffset", "commitLogMaxOffset"))
    return MasterFigures(low, high, table.get("bootTimestamp", ""))


def _offset(table: Mapping[str, str], key: str) -> int:
    """A physical offset of the figures; an empty log of RocketMQ begins at -1."""
    offset = int(table.get(key, ""))
    if offset > LONG_MAX:
        raise ValueError(f"{key}={offset} is no physical offset")
    return max(offset, 0)


async def _body(ask: Ask, code: RequestCode, kind: type[B]) -> B:
    return kind.from_json((await _reply(ask, code)).body)


async def _reply(ask: Ask, code: RequestCode) -> Frame:
    return _checked(await ask(code), code)


def _checked(reply: Frame, code: RequestCode) -> Frame:
    if reply.code:
        raise ConnectionError(f"it answered {code.name} with code {reply.code}: {reply.remark}")
    return reply
