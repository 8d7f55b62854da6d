"""A slave: follows its master's log through the HA port, and copies its state by requests."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from mqclient.engine.transport import Transport
from mqclient.errors import RocketMQError
from mqcommon._core import HaSlave
from mqcommon.wire.codes import RequestCode
from mqcommon.wire.frame import Frame, request_frame
from mqserver.broker.context import BrokerContext
from mqserver.broker.replication import peer
from mqserver.broker.replication.late_topics import add_late_topics
from mqserver.broker.replication.metadata import MasterFigures, MetadataCopy, master_figures
from mqserver.runtime.services import Services
from mqserver.tls.certificates import client_tls
from mqstore import Store, StoreError

log = logging.getLogger("mqserver.broker.replication")

PERIOD_S = 10.0
"""Pause between two copies of the state, as in RocketMQ."""
RETRY_S = 1.0
"""Pause after a copy that failed."""
TIMEOUT_S = 3.0
"""Longest wait for a reply of the master, as in RocketMQ."""
STOP_S = 5.0
THREAD = "slave-sync"


class Slave:
    """Follows the master that registrations name, or `haMasterAddress`.

    store: open in the role of a slave. services: records failures.
    """

    def __init__(self, context: BrokerContext, store: Store, services: Services) -> None:
        self._context = context
        self._store = store
        self._settings = settings = context.settings
        self._ha = HaSlave(
            store,
            {
                "send_heartbeat_interval_ms": settings.ha_send_heartbeat_interval,
                "housekeeping_interval_ms": settings.ha_housekeeping_interval,
                "ack_flushed": settings.ha_ack_flushed,
                "tls": client_tls(settings.client_tls) if settings.ha_tls_enable else None,
            },
        )
        self._services = services
        self._copy = MetadataCopy(context)
        self._master: str | None = None
        self._ha_address: str | None = None
        self._trouble: str | None = None
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._due = asyncio.Event()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name=THREAD, daemon=True)

    def renew_tls(self, tls: Mapping[str, object]) -> None:
        """Use other certificates for the next connection to the master's log."""
        self._ha.renew_tls(tls)

    def status(self) -> dict[str, Any]:
        """Where the copy of the log is; see `_core.HaSlave.status`."""
        return self._ha.status()

    def unready(self) -> str | None:
        """Why the copy cannot be used yet, None if it follows the master."""
        status = self.status()
        if status["state"] in ("waiting", "verifying", "transfer"):
            return None
        reason = status["reason"] or "it knows no master"
        return f"the slave does not follow its master ({status['state']}): {reason}"

    def start(self) -> None:
        """Start to follow."""
        self._ha.start()
        self._thread.start()

    def stop(self) -> None:
        """Stop to follow; the log stays as it is."""
        with self._lock:
            self._is_stopping = True
            self._wake()
        if self._thread.is_alive():  # a start that failed has not begun to follow
            self._thread.join(timeout=STOP_S)
            add_late_topics(self._context, self._store)  # the next start may be a master's
        self._ha.stop()

    def master_is(self, address: str | None, ha_address: str | None) -> None:
        """Take what a registration's reply says about the master; None: it is not live.

        As in RocketMQ, the log's address stays when none is named, and `haMasterAddress` wins.
        """
        with self._lock:
            if address != self._master:
                log.info("the master is at %s", address or "no known address")
            is_new = address is not None and address != self._master
            self._master = address
            if ha_address and ha_address != self._ha_address:
                self._ha_address, is_new = ha_address, True
            if is_new:
                self._wake()

    def _wake(self) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._due.set)

    def _run(self) -> None:
        while not self._is_stopping:
            with self._services.round(THREAD):
                asyncio.run(self._follow())

    async def _follow(self) -> None:
        transport = peer.transport(self._settings)
        self._due.clear()
        with self._lock:
            self._loop = asyncio.get_running_loop()
        try:
            while not self._is_stopping:
                pause = await self._round(transport)
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._due.wait(), pause)
                self._due.clear()
        finally:
            with self._lock:
                self._loop = None
            await transport.aclose()

    async def _round(self, transport: Transport) -> float:
        """Copy the state once; returns the seconds until the next copy."""
        master = self._master

        async def ask(code: RequestCode) -> Frame:
            assert master is not None
            return await transport.call(master, request_frame(code), TIMEOUT_S)

        if master is None:
            self._join(None)
            add_late_topics(self._context, self._store)
            return PERIOD_S
        try:
            figures = await master_figures(ask)
            self._join(figures)
            await self._copy.round(ask, figures.life)
        except (RocketMQError, ValueError, OSError, StoreError) as error:
            self._join(None)
            if self._trouble is None:
                log.warning("the state of master %s was not copied: %s", master, error)
                add_late_topics(self._context, self._store)
            self._trouble = str(error)
            return RETRY_S
        if self._trouble is not None:
            log.info("the state of master %s is copied again", master)
        self._trouble = None
        return PERIOD_S

    def _join(self, figures: MasterFigures | None) -> None:
        """Follow the master's log. An empty slave that copies the whole log needs its figures."""
        address = self._settings.ha_master_address or self._ha_address
        is_full = self._settings.ha_full_copy
        if figures is not None:
            self._ha.note_master_range(figures.min_offset, figures.max_offset)
            self._ha.set_master(address, figures.min_offset if is_full else None)
        elif not is_full:
            self._ha.set_master(address)
