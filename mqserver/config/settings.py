"""The frozen objects the servers use, made from loaded values.

A field is named after RocketMQ's key, in snake_case: `brokerIP1` is `broker_ip1`,
`storePathRootDir` is `store_path_root_dir`. Keys that change nothing here have no field.
"""

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import cache
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any, NamedTuple

from mqserver.config.loaded import Loaded, SettingsError
from mqserver.config.table import shown_of
from mqserver.config.tls_table import FILES, missing_file
from mqstore import Settings

SECRET_LENGTH_MIN = 16
"""Characters of `registrationSecret`."""


class ServerTlsSettings(NamedTuple):
    """`tls.server.*`, and `tls.test.mode.enable`: what a server shows and asks for."""

    mode: str
    tls_test_mode_enable: bool
    cert_path: str
    key_path: str
    key_password: str
    need_client_auth: str
    auth_client: bool
    trust_cert_path: str
    handshake_timeout_millis: int
    max_handshakes: int
    max_handshakes_per_address: int


class ClientTlsSettings(NamedTuple):
    """`tls.client.*`: what a broker shows NameServers, and whom it believes."""

    cert_path: str
    key_path: str
    key_password: str
    auth_server: bool
    verify_host: bool
    trust_cert_path: str


class BrokerSettings(NamedTuple):
    """What the broker is told. Units and ranges: `broker_table.py`."""

    broker_name: str
    broker_cluster_name: str
    broker_id: int
    broker_ip1: str
    broker_ip2: str
    listen_port: int
    bind_address: str
    advertised_port: int
    fast_port_enable: bool
    namesrv_addr: str
    fetch_namesrv_addr_by_address_server: bool
    rmq_address_server_domain: str
    rmq_address_server_sub_group: str
    region_id: str
    metrics_listen: str
    broker_permission: int
    default_topic_queue_nums: int
    auto_create_topic_enable: bool
    auto_create_subscription_group: bool
    auto_create_topic_max: int
    auto_create_topic_per_second: int
    auto_create_group_max: int
    consumer_offset_max: int
    unknown_group_offset_max: int
    queue_lock_max: int
    client_queue_lock_max: int
    client_group_max: int
    max_heartbeat_bytes: int
    max_subscription_bytes: int
    max_filter_bytes: int
    stats_item_max: int
    cluster_topic_enable: bool
    broker_topic_enable: bool
    trace_topic_enable: bool
    msg_trace_topic_name: str
    trace_on: bool
    reject_transaction_message: bool
    enable_property_filter: bool
    enable_calc_filter_bit_map: bool
    filter_support_retry: bool
    expect_consumer_num_use_filter: int
    max_error_rate_of_bloom_filter: int
    filter_data_clean_time_span: int
    transaction_time_out: int
    transaction_check_max: int
    transaction_check_interval: int
    file_reserved_time: int
    start_accept_send_request_time_stamp: int
    long_polling_enable: bool
    short_polling_time_mills: int
    notify_consumer_ids_changed_enable: bool
    slave_read_enable: bool
    register_name_server_period: int
    register_broker_timeout_mills: int
    force_register: bool
    compressed_register: bool
    data_plane: str
    worker_threads: int
    handoff_threads: int
    admin_allow_addresses: str
    registration_secret: str
    rocketmq_home: str
    acl_enable: bool
    acl_plain_file: str
    acl_white_list_skips_signature: bool
    max_frame_bytes: int
    max_header_bytes: int
    max_header_fields: int
    max_frame_seconds: int
    min_frame_bytes_per_second: int
    max_large_request_bytes: int
    max_unfinished_frame_bytes: int
    max_connections: int
    server_channel_max_idle_time_seconds: int
    query_thread_pool_queue_capacity: int
    send_thread_pool_queue_capacity: int
    reply_thread_pool_queue_capacity: int
    store_reply_message_enable: bool
    pull_thread_pool_queue_capacity: int
    heartbeat_thread_pool_queue_capacity: int
    client_manager_thread_pool_queue_capacity: int
    consumer_manager_thread_pool_queue_capacity: int
    end_transaction_pool_queue_capacity: int
    store_path_root_dir: str
    max_message_size: int
    default_query_max_num: int
    max_msgs_num_batch: int
    os_page_cache_busy_time_out_mills: int
    disable_consume_if_consumer_read_slowly: bool
    consumer_fallbehind_threshold: int
    broker_fast_failure_enable: bool
    wait_time_mills_in_send_queue: int
    wait_time_mills_in_pull_queue: int
    wait_time_mills_in_heartbeat_queue: int
    wait_time_mills_in_transaction_queue: int
    enable_detail_stat: bool
    auto_delete_unused_stats: bool
    enable_schedule_message_stats: bool
    message_delay_level: str
    enable_lmq: bool
    server_tls: ServerTlsSettings
    use_tls: bool
    client_tls: ClientTlsSettings

    @property
    def namesrv_addresses(self) -> list[str]:
        """The NameServers, "host:port" each."""
        return [part.strip() for part in self.namesrv_addr.split(";") if part.strip()]


class NamesrvSettings(NamedTuple):
    """What the NameServer is told. Units and ranges: `namesrv_table.py`."""

    listen_port: int
    bind_address: str
    kv_config_path: str
    metrics_listen: str
    order_message_enable: bool
    cluster_test: bool
    product_env_name: str
    rmq_address_server_domain: str
    rmq_address_server_sub_group: str
    admin_allow_addresses: str
    broker_allow_addresses: str
    registration_secret: str
    scan_not_active_broker_interval: int
    broker_expiry: int
    worker_threads: int
    handoff_threads: int
    max_frame_bytes: int
    max_header_bytes: int
    max_header_fields: int
    max_frame_seconds: int
    min_frame_bytes_per_second: int
    max_large_request_bytes: int
    max_unfinished_frame_bytes: int
    max_connections: int
    server_channel_max_idle_time_seconds: int
    server_tls: ServerTlsSettings


def broker_settings(loaded: Loaded) -> BrokerSettings:
    """Freeze loaded values; SettingsError if they do not fit together."""
    values: dict[str, Any] = _fields_of(BrokerSettings._fields, loaded)
    values["broker_name"] = values["broker_name"] or _host_name() or "DEFAULT_BROKER"
    values["store_path_root_dir"] = os.path.expanduser(values["store_path_root_dir"])
    _check_broker(loaded, values)
    values["server_tls"] = server_tls = _server_tls(loaded)
    if not loaded.is_set("useTLS"):
        values["use_tls"] = server_tls.mode == "enforcing"
    _check_tls_files(loaded, "tls.client")
    shown = _fields_of(ClientTlsSettings._fields, loaded, "tls_client_")
    values["client_tls"] = ClientTlsSettings(**shown)
    return BrokerSettings(**values)


def namesrv_settings(loaded: Loaded) -> NamesrvSettings:
    """Freeze loaded values; SettingsError if they do not fit together."""
    values: dict[str, Any] = _fields_of(NamesrvSettings._fields, loaded)
    values["kv_config_path"] = os.path.expanduser(values["kv_config_path"])
    for key in ("adminAllowAddresses", "brokerAllowAddresses"):
        _check_networks(loaded, key)
    _check_secret(loaded)
    values["server_tls"] = _server_tls(loaded)
    return NamesrvSettings(**values)


def store_settings(loaded: Loaded) -> Settings:
    """What the store is told; a file size only if somebody chose it, else it is adopted."""
    values: dict[str, Any] = {
        "sync_flush": loaded.values["flushDiskType"] == "SYNC_FLUSH",
        "heal_damage": loaded.values["damagePolicy"] == "heal",
        "allocate_step_bytes": loaded.values["allocateStepBytes"],
        "min_free_bytes": loaded.values["minFreeBytes"] or None,
        "commit_log_path": _commit_log_path(loaded),
    }
    for field in fields(Settings):
        key = field.metadata["key"]
        if field.name not in values and (field.default is not None or loaded.is_set(key)):
            values[field.name] = loaded.values[key]
    return Settings(**values)


def changed_online(store: Settings, loaded: Loaded) -> Settings:
    """The store's settings with what somebody chose for the keys that may change online."""
    chosen: dict[str, Any] = {}
    for field in fields(Settings):
        key = field.metadata["key"]
        row = loaded.table.get(key)
        if row is not None and row.online and loaded.is_set(key):
            chosen[field.name] = loaded.values[key]
    return replace(store, **chosen)


def networks(text: str) -> list[IPv4Network | IPv6Network]:
    """The networks of a list of CIDRs or addresses; ValueError names a bad one."""
    if not text:
        return []
    return [
        ip_network(part.strip(), strict=False)
        for part in text.replace(";", ",").split(",")
        if part.strip()
    ]


@cache
def snake(key: str) -> str:
    """`brokerIP1` to `broker_ip1`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", key).lower().replace(".", "_")


def _commit_log_path(loaded: Loaded) -> str | None:
    """Where the log is; None for its usual place."""
    root, log = (
        os.path.abspath(os.path.expanduser(str(loaded.values[key])))
        for key in ("storePathRootDir", "storePathCommitLog")
    )
    is_usual = not loaded.values["storePathCommitLog"] or log == os.path.join(root, "commitlog")
    return None if is_usual else log


def _host_name() -> str:
    return socket.gethostname()


def _fields_of(names: tuple[str, ...], loaded: Loaded, begins: str = "") -> dict[str, Any]:
    """The values of fields that have a key. begins: what the keys' names may do before."""
    keys = {snake(key).removeprefix(begins): key for key in loaded.table}
    return {name: loaded.values[keys[name]] for name in names if name in keys}


def _check_broker(loaded: Loaded, values: Mapping[str, Any]) -> None:
    """Relations between settings that RocketMQ checks at start, or should."""
    _check_networks(loaded, "adminAllowAddresses")
    _check_secret(loaded)
    if loaded.values["brokerRole"] != "ASYNC_MASTER":
        raise _refusal(loaded, "brokerRole", "replication is not built yet; use ASYNC_MASTER")
    if values["broker_id"] != 0:
        raise _refusal(loaded, "brokerId", "a master has id 0, and slaves are not built yet")
    if "," in str(loaded.values["storePathCommitLog"]):
        raise _refusal(loaded, "storePathCommitLog", "must be one path; move all files there")
    if int(loaded.values["mappedFileSizeConsumeQueue"]) % 20:
        raise _refusal(loaded, "mappedFileSizeConsumeQueue", "must be a multiple of 20 bytes")
    hours = [part.strip() for part in str(loaded.values["deleteWhen"]).split(";") if part.strip()]
    if not hours or not all(hour.isdecimal() and int(hour) < 24 for hour in hours):
        raise _refusal(loaded, "deleteWhen", "must be hours, 00 to 23, separated by ;")
    for address in (part for part in values["namesrv_addr"].split(";") if part.strip()):
        host, _, port = address.strip().rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise _refusal(loaded, "namesrvAddr", "must be host:port, more separated by ;")


def _server_tls(loaded: Loaded) -> ServerTlsSettings:
    """A certificate that is given is shown, unless test mode is asked for.

    A server that enforces TLS must ask for test mode: no client trusts its self-signed certificate.
    """
    _check_tls_files(loaded, "tls.server")
    made = ServerTlsSettings(**_fields_of(ServerTlsSettings._fields, loaded, "tls_server_"))
    if made.cert_path and not loaded.is_set("tls.test.mode.enable"):
        made = made._replace(tls_test_mode_enable=False)
    test_mode = made.tls_test_mode_enable and loaded.is_set("tls.test.mode.enable")
    if made.mode == "enforcing" and not (made.cert_path or test_mode):
        text = "needs tls.server.certPath and tls.server.keyPath"
        text += " (or tls.test.mode.enable=true: a self-signed certificate)"
        raise _refusal(loaded, "tls.server.mode", text)
    if made.need_client_auth != "none" and made.auth_client and not made.trust_cert_path:
        text = "needs tls.server.trustCertPath (or tls.server.authClient=false, which takes any)"
        raise _refusal(loaded, "tls.server.need.client.auth", text)
    return made


def _check_tls_files(loaded: Loaded, side: str) -> None:
    for name in FILES:
        problem = missing_file(str(loaded.values[f"{side}.{name}"]))
        if problem:
            raise _refusal(loaded, f"{side}.{name}", problem)
    cert, key = f"{side}.certPath", f"{side}.keyPath"
    if bool(loaded.values[cert]) != bool(loaded.values[key]):
        raise _refusal(loaded, cert, f"goes together with {key}: give both")


def _check_networks(loaded: Loaded, key: str) -> None:
    try:
        networks(str(loaded.values[key]))
    except ValueError as error:
        raise _refusal(loaded, key, f"must be networks like 10.0.0.0/8: {error}") from None


def _check_secret(loaded: Loaded) -> None:
    if 0 < len(str(loaded.values["registrationSecret"])) < SECRET_LENGTH_MIN:
        what = f"must have at least {SECRET_LENGTH_MIN} characters"
        raise _refusal(loaded, "registrationSecret", what)


def _refusal(loaded: Loaded, key: str, what: str) -> SettingsError:
    value = shown_of(loaded.table[key], loaded.values[key])
    return SettingsError(f"{loaded.origins[key]}: {key}={value}: {what}")
