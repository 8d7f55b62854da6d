"""Settings that broker and NameServer share: the listener, its limits, and the address server."""

from __future__ import annotations

from mqserver.config.table import UNLISTED, Group, ours, setting
from mqserver.config.tls_table import ServerTlsSettings


class ListenerSettings(Group):
    """Addresses, threads and limits of a server's listener."""

    # fmt: off
    bind_address: str = ours("bindAddress", "0.0.0.0",
        "local address to listen on; 0.0.0.0: all interfaces", important=True)
    metrics_listen: str = ours("metricsListen", "",
        "address, as host:port, that serves /metrics, /live and /ready over HTTP; empty: none")
    admin_allow_addresses: str = ours("adminAllowAddresses", "",
        "networks (CIDR) that may send administration requests, besides this machine; separate "
        "them by commas", online=True)
    worker_threads: int = ours("workerThreads", 0,
        "threads of the Rust data plane; 0: the number of cores + 2", ceiling=1024)
    handoff_threads: int = ours("handoffThreads", 2,
        "Python threads for each family of requests that Python serves", floor=1, ceiling=64)
    max_frame_bytes: int = ours("maxFrameBytes", 16 << 20,
        "largest frame to accept; the server closes a connection that sends a larger one",
        unit="bytes", floor=64 << 10, ceiling=1 << 30)
    max_header_bytes: int = ours("maxHeaderBytes", 256 << 10,
        "longest frame header to accept; the server closes a connection that sends a longer one",
        unit="bytes", floor=64 << 10, ceiling=16 << 20)
    max_header_fields: int = ours("maxHeaderFields", 256,
        "most fields in a frame header, where all properties of a message count as one field; the "
        "server closes a connection that sends more", floor=64, ceiling=1 << 20)
    max_frame_seconds: int = ours("maxFrameSeconds", 30,
        "close a connection that takes longer than this to complete a frame; time during which "
        "the server does not read is not counted",
        unit="s", floor=1, ceiling=3600)
    min_frame_bytes_per_second: int = ours("minFrameBytesPerSecond", 1024,
        "close a connection that sends a frame more slowly than this on average, once a third of "
        "maxFrameSeconds has passed; 0: any speed", unit="bytes/s")
    max_large_request_bytes: int = ours("maxLargeRequestBytes", 64 << 20,
        "memory for requests over 1 MiB, of all connections; one connection may use a quarter of "
        "it. A request that finds no room waits, and the server stops reading its connection. At "
        "most an eighth of the memory limit of the process's control group",
        unit="bytes", floor=1 << 20)
    max_unfinished_frame_bytes: int = ours("maxUnfinishedFrameBytes", 128 << 20,
        "memory for frames that have not arrived completely, of all connections, at least twice "
        "maxFrameBytes; beyond it the server closes the connections with the oldest frames. At "
        "most an eighth of the memory limit of the process's control group",
        unit="bytes", floor=1 << 20)
    max_connections: int = ours("maxConnections", 100_000,
        "most connections; the server accepts fewer when the limit on open files (ulimit -n), "
        "less a quarter and 128 for the store, is lower, and does not start with fewer than 16",
        floor=1)
    server_channel_max_idle_time_seconds: int = setting("serverChannelMaxIdleTimeSeconds", 120,
        "close a connection that is silent for this long", unit="s", floor=1, ceiling=86400)
    rmq_address_server_domain: str = setting("rmqAddressServerDomain", "jmenv.tbsite.net",
        "host of the address server, or host:port; without a port: 8080",
        aliases=("rocketmq.namesrv.domain",), known_to=UNLISTED)
    rmq_address_server_sub_group: str = setting("rmqAddressServerSubGroup", "nsaddr",
        "list to fetch from the address server: the end of the path after /rocketmq/",
        aliases=("rocketmq.namesrv.domain.subgroup",), known_to=UNLISTED)
    # fmt: on
    server_tls: ServerTlsSettings
