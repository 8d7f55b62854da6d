"""Calls the functions with which a program follows the queues of its consumer.

Users of other clients meet three problems in such functions. A function that blocks holds up the
whole consumer until the group expels it: here plain functions run in a thread, heartbeats go on,
and each call has a time limit. A function that waits for the loop that reads messages waits for
ever: here nothing else waits for that loop. A commit that is only begun in the function arrives
after the queue was given up: here the consumer waits for the function, and commits after it.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextvars import ContextVar

from mqclient.consumer.context import is_async
from mqclient.engine.callables import check_takes
from mqclient.engine.namespace import Namespace
from mqclient.engine.threads import in_thread
from mqclient.settings.checks import seconds
from mqcommon.message import MessageQueue
from mqcommon.names import RETRY_PREFIX
from mqcommon.signals import is_real_interrupt

__all__ = ["LISTENER_TIMEOUT_S", "QueuesFunction", "RebalanceListener"]

log = logging.getLogger(__name__)
LISTENER_TIMEOUT_S = 10.0
"""Seconds for one call, unless the program sets another limit."""

QueuesFunction = Callable[[list[MessageQueue]], Awaitable[None] | None]
"""A function of a list of queues: `async def` runs on the loop, a plain one in a thread."""
_within: ContextVar["RebalanceListener | None"] = ContextVar("_within", default=None)
"""The listener of which this thread or task runs a function."""


class RebalanceListener:
    """The functions of one consumer; one call runs at a time."""

    def __init__(self, names: Namespace) -> None:
        self._names = names
        self._functions: dict[str, QueuesFunction] = {}
        self._timeout = LISTENER_TIMEOUT_S
        self._turn = asyncio.Lock()

    def set(
        self,
        assigned: QueuesFunction | None,
        revoked: QueuesFunction | None,
        lost: QueuesFunction | None,
        timeout: float,
    ) -> None:
        """Replace the functions. Raises TypeError, ValueError."""
        given = {"assigned": assigned, "revoked": revoked, "lost": lost or revoked}
        functions = {name: one for name, one in given.items() if one is not None}
        for name, function in functions.items():
            check_takes(name, function, "queues")
        self._timeout = seconds(timeout)
        self._functions = functions

    @property
    def calling(self) -> bool:
        """Whether the caller is one of the functions."""
        return _within.get() is self

    async def assigned(self, queues: Iterable[MessageQueue]) -> None:
        """These queues were taken over, and nothing of them is pulled yet."""
        await self._call("assigned", queues)

    async def revoked(self, queues: Iterable[MessageQueue]) -> None:
        """These queues are about to be given up."""
        await self._call("revoked", queues)

    async def lost(self, queues: Iterable[MessageQueue]) -> None:
        """These queues are given up already."""
        await self._call("lost", queues)

    async def _call(self, name: str, queues: Iterable[MessageQueue]) -> None:
        function = self._functions.get(name)
        shown = sorted(queue for queue in queues if not queue.topic.startswith(RETRY_PREFIX))
        if function is None or not shown:
            return
        async with self._turn:
            token = _within.set(self)
            limit = asyncio.timeout(self._timeout)
            try:
                async with limit:
                    await _run(function, self._names.unwrap_queues(shown))
            except BaseException as error:  # also sys.exit(), which would end the loop
                task = asyncio.current_task()
                if is_real_interrupt(error) or (task is not None and task.cancelling()):
                    raise
                if limit.expired():
                    text = "the function %r for %d queues has not ended after %g s; going on"
                    log.warning(text, name, len(shown), self._timeout)
                else:
                    log.exception("the function %r for %d queues failed", name, len(shown))
            finally:
                _within.reset(token)


async def _run(function: QueuesFunction, queues: list[MessageQueue]) -> None:
    outcome: object = function(queues) if is_async(function) else await in_thread(function, queues)
    if inspect.isawaitable(outcome):
        await outcome
