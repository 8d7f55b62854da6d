"""Settings of the files that both servers make: where the log goes, and who may read what.

RocketMQ's are in its logback, and in the umask.
"""

from __future__ import annotations

from mqserver.config.table import Setting

LOG_ROWS = (
    Setting("logDir", "", "folder of broker.log, namesrv.log or standalone.log, and stats.log; "
            "empty: warnings go to standard error alone, standalone --data DATA also writes into "
            "DATA/mqstack/logs"),
    Setting("logLevel", "INFO", "least that goes to the files",
            choices=("DEBUG", "INFO", "WARNING", "ERROR")),
    Setting("logFileBytes", 64 << 20, "a log file this large is put aside", unit="bytes",
            floor=4096, ceiling=1 << 30),
    Setting("logFileCount", 10, "files put aside; the oldest goes", floor=1, ceiling=100),
    Setting("storeFileMode", "0640", "permission bits of new files, octal; new folders can be "
            "entered by whoever may read or write the files, access files (ACL) stay 0600"),
)  # fmt: skip
