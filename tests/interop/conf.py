"""Configuration files that the Java servers and ours both read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

#: Small files, so that tests fill several; the golden stores were written with these settings.
SMALL_STORE: Mapping[str, object] = {
    "mappedFileSizeCommitLog": 65536,
    "mappedFileSizeConsumeQueue": 6000,
    "maxHashSlotNum": 100,
    "maxIndexNum": 400,
}


def write_conf(path: Path, values: Mapping[str, object]) -> Path:
    """Write a properties file and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
    return path


def broker_settings(name: str, namesrv: str, port: int, store: Path) -> dict[str, object]:
    """A master on loopback; a log that is not expired and a disk that may be nearly full."""
    return {
        "brokerClusterName": "DefaultCluster",
        "brokerName": name,
        "brokerId": 0,
        "brokerIP1": "127.0.0.1",
        "brokerIP2": "127.0.0.1",
        "namesrvAddr": namesrv,
        "listenPort": port,
        "haListenPort": port + 1,
        "storePathRootDir": store,
        "storePathCommitLog": store / "commitlog",
        "brokerRole": "ASYNC_MASTER",
        "flushDiskType": "ASYNC_FLUSH",
        "diskMaxUsedSpaceRatio": 95,
        "fileReservedTime": 72,
        "enablePropertyFilter": "true",
        # Transactions get so much time that no slow producer is asked about them.
        "transactionCheckInterval": 500,
        "transactionTimeOut": 3000,
        # No request is refused on a busy machine because it waited or because a page was late.
        "waitTimeMillsInSendQueue": 60_000,
        "waitTimeMillsInPullQueue": 60_000,
        "osPageCacheBusyTimeOutMills": 60_000,
    }
