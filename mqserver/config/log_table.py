"""Settings of the files that both servers write: where the log goes, and who may read the files.

RocketMQ takes the first from its logback configuration and the second from the umask.
"""

from __future__ import annotations

from mqserver.config.table import Group, ours


class LogSettings(Group):
    """The log files, and the permissions of all files."""

    # fmt: off
    log_dir: str = ours("logDir", "",
        "folder for broker.log, namesrv.log or standalone.log, and stats.log; standard error then "
        "has the warnings only; empty: the log goes to standard error, and standalone --data DATA "
        "writes it to DATA/mqstack/logs")
    log_level: str = ours("logLevel", "INFO",
        "lowest level that the log records", choices=("DEBUG", "INFO", "WARNING", "ERROR"))
    log_file_bytes: int = ours("logFileBytes", 64 << 20,
        "size at which a log file is rotated",
        unit="bytes", floor=4096, ceiling=1 << 30)
    log_file_count: int = ours("logFileCount", 10,
        "number of rotated log files to keep; the oldest is deleted", floor=1, ceiling=100)
    store_file_mode: str = ours("storeFileMode", "0640",
        "permission bits of new files, octal; new folders get the matching execute bits; access "
        "files (ACL) always have 0600")
    # fmt: on
