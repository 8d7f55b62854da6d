"""Settings of the files that both servers make: where the log goes, and who may read what.

RocketMQ's are in its logback, and in the umask.
"""

from __future__ import annotations

from mqserver.config.table import Group, ours


class LogSettings(Group):
    """The files of log lines, and the permissions of all files."""

    # fmt: off
    log_dir: str = ours("logDir", "",
        "folder of broker.log, namesrv.log or standalone.log, and stats.log; empty: warnings go to"
        " standard error alone, standalone --data DATA also writes into DATA/mqstack/logs")
    log_level: str = ours("logLevel", "INFO",
        "least that goes to the files", choices=("DEBUG", "INFO", "WARNING", "ERROR"))
    log_file_bytes: int = ours("logFileBytes", 64 << 20,
        "a log file this large is put aside",
        unit="bytes", floor=4096, ceiling=1 << 30)
    log_file_count: int = ours("logFileCount", 10,
        "files put aside; the oldest goes", floor=1, ceiling=100)
    store_file_mode: str = ours("storeFileMode", "0640",
        "permission bits of new files, octal; new folders can be entered by whoever may read or "
        "write the files, access files (ACL) stay 0600")
    # fmt: on
