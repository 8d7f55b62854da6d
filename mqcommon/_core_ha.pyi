"""Types of the compiled Rust core: replication. Import them from `mqcommon._core`."""

from collections.abc import Mapping
from typing import Any, Self, final

from mqcommon._core import Store

@final
class HaMaster:
    """The HA port of a master, where slaves copy the log of its store.

    settings: port (0 for a free one). Optional are host ("" for all addresses),
    transfer_batch_bytes, send_heartbeat_interval_ms, housekeeping_interval_ms, max_slaves,
    max_bytes_per_second of each slave (0 for no limit), allow: None for loopback and private
    networks, or a list of addresses and networks ("10.0.0.0/8"), and tls: None for plain
    connections, or the certificate as in the "tls" setting of a server.

    Raises ValueError for a bad setting, and RuntimeError in a forked child.
    """

    def __new__(cls, store: Store, settings: Mapping[str, object]) -> Self: ...
    def start(self) -> int:
        """Listen, and serve slaves from now on; returns the port. Raises OSError."""
    def slaves(self) -> list[dict[str, Any]]:
        """A row for each connected slave.

        - address: "ip:port". seconds: since it connected.
        - state: "joining" before its first report, "transfer", or "out_of_range" if it asks for
          bytes before the start of this log.
        - acked_offset: log offset up to which it has everything. sent_offset: end of the sent
          bytes. Both are -1 before its first report.
        - lag_bytes: bytes of this log after acked_offset. lag_ms: milliseconds since the first of
          them was stored; -1 if acked_offset is within a message, as that of a Java slave may be.
        - bytes_per_second: sent in the last ten seconds. bytes_sent: all.
        """
    def renew_tls(self, tls: Mapping[str, object]) -> None:
        """Show another certificate to slaves that connect from now on.

        Has no effect without TLS at the start. Raises ValueError for files that cannot be used.
        """
    def refused(self) -> int:
        """Connections that were refused: by address, or because there were too many."""
    def stop(self) -> None:
        """Close the port and all connections, and wait for the threads. Releases the GIL."""

@final
class HaSlave:
    """Copies a master's log into a store in the role "slave".

    settings, all optional: send_heartbeat_interval_ms, housekeeping_interval_ms,
    connect_timeout_ms, retry_interval_ms after a failed connection, ack_flushed (False), and tls:
    None for plain connections, or the "tls" setting of a client.

    Raises ValueError for a bad setting, and RuntimeError in a forked child.
    """

    def __new__(cls, store: Store, settings: Mapping[str, object]) -> Self: ...
    def start(self) -> None:
        """Start the thread. Raises StoreError unless the store's role is "slave"."""
    def set_master(self, address: str | None, first_offset: int | None = None) -> None:
        """Follow the master at this HA address ("host:port"); None ends that.

        A connection to another address is closed at once; the same address changes nothing.
        first_offset: where an empty log begins, the start of a file of the master. None for the
        start of the master's last file, as in RocketMQ.
        """
    def note_master_range(self, min_offset: int, max_offset: int) -> None:
        """Note the start and the end of the master's log, which HA connections do not tell.

        A log that ends before that start goes on there, and keeps what it has.
        """
    def renew_tls(self, tls: Mapping[str, object]) -> None:
        """Use another certificate, or trust another, from the next connection on.

        Has no effect without TLS at the start. Raises ValueError for files that cannot be used.
        """
    def status(self) -> dict[str, Any]:
        """State and figures of the slave.

        - address: the master's, or None. connects: number of connections made.
        - state: "idle" (no address), "connecting", "waiting" (no frame yet), "verifying" (it
          compares the end of its log), "transfer", "ahead" (its log is longer than the master's),
          "below" (its log ends before the master's begins, and has not gone on there yet),
          "diverged" (the logs differ, so it has stopped), "refused" (the master said what cannot
          be, or this log failed; it tries again) or "stopped".
        - reason: the last failure, "" for none. diverged_at: first offset that differs, or -1.
        - offset: end of its log. reported_offset: its last report, or -1. master_offset: end of
          the master's log as far as known, or -1. lag_bytes: between the two, or -1.
        - lag_ms: milliseconds since it last had all that it knew its master to have, 0 while it
          has; before that was so for the first time, the age of its newest message; -1 for an
          empty log.
        - bytes_per_second: received in the last ten seconds. bytes_received: all.
        - last_read_ms, last_write_ms: wall clock of the last byte from and to the master, or 0.
        """
    def stop(self) -> None:
        """End the connection and the thread. Releases the GIL."""
