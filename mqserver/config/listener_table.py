"""Settings that both servers have: the listener, its limits, and the address server."""

from __future__ import annotations

from mqserver.config.table import UNLISTED, Group, ours, setting
from mqserver.config.tls_table import ServerTlsSettings


class ListenerSettings(Group):
    """What a server listens with."""

    # fmt: off
    bind_address: str = ours("bindAddress", "0.0.0.0",
        "address of the listener", important=True)
    metrics_listen: str = ours("metricsListen", "",
        "address of /metrics, /live and /ready, host:port; empty: none")
    admin_allow_addresses: str = ours("adminAllowAddresses", "",
        "networks, CIDR, besides this machine, that may administer", online=True)
    worker_threads: int = ours("workerThreads", 0,
        "threads of the compiled plane; 0: cores + 2", ceiling=1024)
    handoff_threads: int = ours("handoffThreads", 2,
        "Python threads for each family of requests", floor=1, ceiling=64)
    max_frame_bytes: int = ours("maxFrameBytes", 16 << 20,
        "largest frame taken", unit="bytes", floor=64 << 10, ceiling=1 << 30)
    max_header_bytes: int = ours("maxHeaderBytes", 256 << 10,
        "longest header of a frame; a connection that sends a longer one is closed",
        unit="bytes", floor=64 << 10, ceiling=16 << 20)
    max_header_fields: int = ours("maxHeaderFields", 256,
        "most fields in the header of a frame, where all properties of a message are one; a "
        "connection that sends more is closed", floor=64, ceiling=1 << 20)
    max_frame_seconds: int = ours("maxFrameSeconds", 30,
        "close a connection that has not completed a frame this long after its first byte; time in"
        " which the server does not read does not count",
        unit="s", floor=1, ceiling=3600)
    min_frame_bytes_per_second: int = ours("minFrameBytesPerSecond", 1024,
        "close a connection whose frame takes over a third of maxFrameSeconds and comes slower "
        "than this on average; 0: any speed", unit="bytes/s")
    max_large_request_bytes: int = ours("maxLargeRequestBytes", 64 << 20,
        "memory that requests over 1 MiB may take, of all connections; one connection may take a "
        "quarter of it. A request that finds no room waits, and its connection is not read",
        unit="bytes", floor=1 << 20)
    max_unfinished_frame_bytes: int = ours("maxUnfinishedFrameBytes", 128 << 20,
        "frames that have begun and not ended, of all connections, at least twice maxFrameBytes; "
        "above it the oldest are closed", unit="bytes", floor=1 << 20)
    max_connections: int = ours("maxConnections", 100_000,
        "most connections; fewer where the limit on open files (ulimit -n), less a quarter and 128"
        " for the store, is lower", floor=1)
    server_channel_max_idle_time_seconds: int = setting("serverChannelMaxIdleTimeSeconds", 120,
        "close silent connections", unit="s", floor=1, ceiling=86400)
    rmq_address_server_domain: str = setting("rmqAddressServerDomain", "jmenv.tbsite.net",
        "the address server's host, or host:port; else port 8080",
        aliases=("rocketmq.namesrv.domain",), known_to=UNLISTED)
    rmq_address_server_sub_group: str = setting("rmqAddressServerSubGroup", "nsaddr",
        "its list, the end of the path after /rocketmq/",
        aliases=("rocketmq.namesrv.domain.subgroup",), known_to=UNLISTED)
    # fmt: on
    server_tls: ServerTlsSettings
