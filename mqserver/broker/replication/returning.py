"""A master that returns takes the offsets that consumers committed to its slaves meanwhile."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from mqclient.engine.transport import Transport
from mqclient.errors import RocketMQError
from mqcommon.wire.bodies.offsets import ConsumerOffsetSerializeWrapper
from mqcommon.wire.bodies.route import ClusterInfo
from mqcommon.wire.codes import RequestCode
from mqcommon.wire.frame import Frame, request_frame
from mqserver.broker.context import StoreDoor
from mqserver.broker.replication import peer
from mqserver.broker.replication.offsets import take_newer
from mqserver.config.settings import BrokerSettings

log = logging.getLogger("mqserver.broker.replication")

TIMEOUT_S = 3.0
"""Longest wait for the reply of a NameServer or of a slave."""
TOGETHER_S = 30.0
"""Longest time for all of them."""


class Returning:
    """Asks the NameServers for the slaves of this broker's name, and takes their newer offsets, on
    a thread.

    Logs what was taken; a slave that does not answer is left out.
    """

    def __init__(self, store: StoreDoor, settings: BrokerSettings, namesrvs: Sequence[str]) -> None:
        self._work = (store, settings, namesrvs)
        self._lock = threading.Lock()
        self._end: Callable[[], object] | None = None
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name="returning-offsets", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread, also while it waits for a reply."""
        with self._lock:
            self._is_stopping = True
            if self._end is not None:
                self._end()
        self._thread.join()

    def _run(self) -> None:
        with suppress(asyncio.CancelledError):
            asyncio.run(self._take())

    async def _take(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        loop = asyncio.get_running_loop()
        with self._lock:
            if self._is_stopping:
                return
            self._end = lambda: loop.call_soon_threadsafe(task.cancel)
        try:
            await asyncio.wait_for(_take(*self._work), TOGETHER_S)
        except TimeoutError:
            log.warning("the offsets of the slaves were not taken within %g s", TOGETHER_S)
        finally:
            with self._lock:
                self._end = None


async def _take(store: StoreDoor, settings: BrokerSettings, namesrvs: Sequence[str]) -> None:
    transport = peer.transport(settings)
    try:
        for address in await _slaves(transport, settings.broker_name, namesrvs):
            reply = await _asked(transport, address, RequestCode.GET_ALL_CONSUMER_OFFSET)
            if reply is None:
                continue
            table = ConsumerOffsetSerializeWrapper.from_json(reply.body).offset_table
            if count := take_newer(store, table):
                log.info(
                    "%d offsets were taken from slave %s, which has newer ones", count, address
                )
    except ValueError as error:
        log.warning("the offsets of a slave were not taken: %s", error)
    finally:
        await transport.aclose()


async def _slaves(transport: Transport, name: str, namesrvs: Sequence[str]) -> list[str]:
    """The addresses of the slaves of a broker, from the first NameServer that answers."""
    for namesrv in namesrvs:
        reply = await _asked(transport, namesrv, RequestCode.GET_BROKER_CLUSTER_INFO)
        if reply is not None:
            data = ClusterInfo.from_json(reply.body).broker_addr_table.get(name)
            addresses = data.broker_addrs if data else {}
            return [address for number, address in sorted(addresses.items()) if number]
    return []


async def _asked(transport: Transport, address: str, code: RequestCode) -> Frame | None:
    """The reply to a request without header and body; None for a failure, which is logged."""
    try:
        reply = await transport.call(address, request_frame(code), TIMEOUT_S)
    except RocketMQError as error:
        log.warning("%s does not answer %s: %s", address, code.name, error)
        return None
    if reply.code:
        log.warning("%s answered %s with code %d: %s", address, code.name, reply.code, reply.remark)
        return None
    return reply
