"""Warns before a certificate expires."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime

from mqcommon import _core

log = logging.getLogger("mqserver.tls")

SOON_S = 30 * 86_400
"""Warnings start when this much of the certificate's life is left."""
AGAIN_S = 86_400
"""Time between two warnings about the same certificate."""


class Expiry:
    """The expiry of the certificate in a file. Call its methods from one thread at a time.

    path: the PEM file, whose first certificate counts; None for no certificate. now: wall clock,
    seconds since the epoch.
    """

    def __init__(self, path: str | None, now: Callable[[], float] = time.time) -> None:
        self._path = path
        self._now = now
        self._warned_at = 0.0
        self.at: int | None = None

    def read(self) -> None:
        """Read the file. One that cannot be read changes nothing, as the server cannot use it."""
        if self._path is None:
            return
        try:
            self.at = _core.certificate_end(self._path)
        except ValueError as error:
            log.debug("%s", error)
        self._warned_at = 0.0

    def look(self) -> None:
        """Warn, once a day, of a certificate that expires soon or has expired."""
        now = self._now()
        if self.at is None or self.at - now > SOON_S or now - self._warned_at < AGAIN_S:
            return
        self._warned_at = now
        end = datetime.fromtimestamp(self.at, UTC).isoformat()
        if self.at <= now:
            log.warning(
                "the certificate %s expired at %s, and peers refuse it; replace the file",
                self._path,
                end,
            )
        else:
            days = (self.at - now) / 86_400
            log.warning(
                "the certificate %s expires in %.0f days, at %s; replace the file before",
                self._path,
                days,
                end,
            )
