"""TLS of the servers: settings of the compiled plane, and new certificates without a restart."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from mqserver.config.settings import ClientTlsSettings, ServerTlsSettings
from mqserver.runtime.services import Services
from mqserver.runtime.watch import Stamp, Watch, stamp
from mqserver.tls.expiry import Expiry

log = logging.getLogger("mqserver.tls")

WATCH_S = 1.0
"""Time between two checks of the certificate files."""
TLS_COUNTERS = {
    "tls_sessions": "Connections whose TLS handshake was good",
    "tls_failed": "Connections that failed for TLS",
}
"""Rows of `/metrics`, by the plane's counters."""
CERTIFICATE_END = "tls_certificate_expiry_timestamp_seconds"
CERTIFICATE_END_HELP = "When the certificate in use expires, seconds since 1970"
_FILES = ("cert", "key", "trust")
_AT_START = ("handshake_timeout", "max_handshakes", "max_source_handshakes")


def plane_tls(settings: ServerTlsSettings) -> dict[str, object]:
    """The compiled plane's "tls" setting."""
    own = bool(settings.cert_path) and not settings.tls_test_mode_enable
    mode = settings.mode
    if not own and not settings.tls_test_mode_enable:
        mode = "disabled"  # there is no certificate
    return {
        "mode": mode,
        "cert": settings.cert_path if own else None,
        "key": settings.key_path if own else None,
        "key_password": settings.key_password or None,
        "client_auth": settings.need_client_auth,
        "trust": settings.trust_cert_path if settings.auth_client else None,
        "handshake_timeout": settings.handshake_timeout_millis / 1000,
        "max_handshakes": settings.max_handshakes,
        "max_source_handshakes": settings.max_handshakes_per_address,
    }


def client_tls(settings: ClientTlsSettings) -> dict[str, str | None]:
    """The "tls" setting of the connections to NameServers."""
    checked = "full" if settings.verify_host else "ca"
    return {
        "verify": checked if settings.auth_server else "none",
        "trust": settings.trust_cert_path or None,
        "cert": settings.cert_path or None,
        "key": settings.key_path or None,
        "key_password": settings.key_password or None,
    }


class CertificateWatch:
    """Loads new certificates for new connections when the files change; warns before they expire.

    tls: the setting of a server or a client. show: gives the plane the setting again. It raises
    ValueError for files that cannot be used; that is logged once, and the old certificate stays.
    """

    def __init__(
        self,
        tls: Mapping[str, object],
        show: Callable[[Mapping[str, object]], None],
        watch_s: float = WATCH_S,
        services: Services | None = None,
    ) -> None:
        self._tls = {key: value for key, value in tls.items() if key not in _AT_START}
        self._show = show
        self._paths = [str(tls[key]) for key in _FILES if tls.get(key)]
        self._shown = self._before = self._stamps()
        self._watch = Watch("tls-watch", self.look, watch_s, services)
        self._is_used = bool(self._paths) and tls.get("mode") != "disabled"
        self._expiry = Expiry(str(tls["cert"]) if tls.get("cert") else None)

    @property
    def ends_at(self) -> int | None:
        """When the certificate in use expires, seconds since 1970; None without a file."""
        return self._expiry.at

    def start(self) -> None:
        """Start the thread, if there is a file to watch."""
        if self._is_used:
            self._expiry.read()
            self._expiry.look()
            self._watch.start()

    def stop(self) -> None:
        """End the thread."""
        self._watch.stop()

    def look(self) -> None:
        """Load changed files once two looks found them equal, so that all of them are complete."""
        self._expiry.look()
        stamps = self._stamps()
        settled, self._before = stamps == self._before, stamps
        if stamps == self._shown or not settled:
            return
        self._shown = stamps  # also for files that cannot be used, so that one line is logged
        try:
            self._show(self._tls)
        except ValueError as error:
            log.error("the changed TLS files cannot be used; the old certificate stays: %s", error)
        else:
            self._expiry.read()
            log.info("TLS files changed: new connections use %s", ", ".join(self._paths))

    def _stamps(self) -> tuple[Stamp | None, ...]:
        return tuple(_stamp(path) for path in self._paths)


def _stamp(path: str) -> Stamp | None:
    try:
        return stamp(path)
    except OSError:  # counts as missing; reading the file will report the error
        return None
