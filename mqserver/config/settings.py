"""Makes the frozen objects that the servers use from loaded values, and checks them as a whole.

A field is named after its key, in snake_case: `brokerIP1` is `broker_ip1`, `storePathRootDir` is
`store_path_root_dir`. Keys without effect have no field.
"""

import os
import socket
from collections.abc import Mapping
from dataclasses import fields, replace
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any, TypeVar

from mqserver.config.broker_table import BrokerSettings
from mqserver.config.loaded import Loaded, SettingsError
from mqserver.config.namesrv_table import NamesrvSettings
from mqserver.config.replication_table import SLAVE, SYNC_MASTER
from mqserver.config.table import Group, shown_of
from mqserver.config.tls_table import FILES, ClientTlsSettings, ServerTlsSettings, missing_file
from mqstore import Settings

__all__ = [
    "BrokerSettings",
    "ClientTlsSettings",
    "NamesrvSettings",
    "ServerTlsSettings",
    "broker_settings",
    "changed_online",
    "frozen",
    "namesrv_settings",
    "networks",
    "store_settings",
]

SECRET_LENGTH_MIN = 16
"""Fewest characters of `registrationSecret`."""


G = TypeVar("G", bound=Group)


def broker_settings(loaded: Loaded) -> BrokerSettings:
    """Freeze loaded values. Raises SettingsError if two of them contradict each other."""
    values = _values(BrokerSettings, loaded)
    values["broker_name"] = values["broker_name"] or _host_name() or "DEFAULT_BROKER"
    values["store_path_root_dir"] = os.path.expanduser(values["store_path_root_dir"])
    if not loaded.is_set("haListenPort"):
        values["ha_listen_port"] = 0  # the port after the listener's
    _check_broker(loaded, values)
    values["server_tls"] = server_tls = _server_tls(loaded)
    if not loaded.is_set("useTLS"):
        values["use_tls"] = server_tls.mode == "enforcing"
    _check_tls_files(loaded, "tls.client")
    values["client_tls"] = frozen(ClientTlsSettings, loaded)
    return BrokerSettings(**values)


def namesrv_settings(loaded: Loaded) -> NamesrvSettings:
    """Freeze loaded values. Raises SettingsError if two of them contradict each other."""
    values = _values(NamesrvSettings, loaded)
    values["kv_config_path"] = os.path.expanduser(values["kv_config_path"])
    for key in ("adminAllowAddresses", "brokerAllowAddresses"):
        _check_networks(loaded, key)
    _check_secret(loaded)
    values["server_tls"] = _server_tls(loaded)
    return NamesrvSettings(**values)


def store_settings(loaded: Loaded) -> Settings:
    """The store's settings. A file size that is not set stays None, so that the store adopts the
    size of its existing files."""
    values: dict[str, Any] = {
        "sync_flush": loaded.values["flushDiskType"] == "SYNC_FLUSH",
        "repair_damage": loaded.values["damagePolicy"] == "repair",
        "allocate_step_bytes": loaded.values["allocateStepBytes"],
        "min_free_bytes": loaded.values["minFreeBytes"] or None,
        "commit_log_path": _commit_log_path(loaded),
        "role": "slave" if loaded.values["brokerRole"] == SLAVE else "master",
    }
    for field in fields(Settings):
        key = field.metadata["key"]
        if field.name not in values and (field.default is not None or loaded.is_set(key)):
            values[field.name] = loaded.values[key]
    return Settings(**values)


def changed_online(store: Settings, loaded: Loaded) -> Settings:
    """The store's settings with the loaded values of the keys that may change online."""
    chosen: dict[str, Any] = {}
    for field in fields(Settings):
        key = field.metadata["key"]
        row = loaded.table.get(key)
        if row is not None and row.online and loaded.is_set(key):
            chosen[field.name] = loaded.values[key]
    return replace(store, **chosen)


def networks(text: str) -> list[IPv4Network | IPv6Network]:
    """Parse a list of networks (CIDR) or addresses. Raises ValueError that names a bad one."""
    if not text:
        return []
    return [
        ip_network(part.strip(), strict=False)
        for part in text.replace(";", ",").split(",")
        if part.strip()
    ]


def _commit_log_path(loaded: Loaded) -> str | None:
    """The directory of the commit log; None for `commitlog` in the store's directory."""
    root, log = (
        os.path.abspath(os.path.expanduser(str(loaded.values[key])))
        for key in ("storePathRootDir", "storePathCommitLog")
    )
    is_usual = not loaded.values["storePathCommitLog"] or log == os.path.join(root, "commitlog")
    return None if is_usual else log


def _host_name() -> str:
    return socket.gethostname()


def frozen(kind: type[G], loaded: Loaded, **other: object) -> G:
    """The values of a group. other: values that replace loaded ones, and nested groups."""
    return kind(**{**_values(kind, loaded), **other})


def _values(kind: type[Group], loaded: Loaded) -> dict[str, Any]:
    return {field: loaded.values[row.key] for field, row in kind.rows().items()}


def _check_broker(loaded: Loaded, values: Mapping[str, Any]) -> None:
    """Check relations between settings at start: RocketMQ's checks, and a few more."""
    _check_networks(loaded, "adminAllowAddresses")
    _check_secret(loaded)
    _check_replication(loaded, values)
    if "," in str(loaded.values["storePathCommitLog"]):
        raise _refusal(loaded, "storePathCommitLog", "must be one path; move all log files there")
    if int(loaded.values["mappedFileSizeConsumeQueue"]) % 20:
        raise _refusal(loaded, "mappedFileSizeConsumeQueue", "must be a multiple of 20 bytes")
    hours = [part.strip() for part in str(loaded.values["deleteWhen"]).split(";") if part.strip()]
    if not hours or not all(hour.isdecimal() and int(hour) < 24 for hour in hours):
        raise _refusal(loaded, "deleteWhen", "must be hours, 00 to 23, separated by ;")
    for address in (part for part in values["namesrv_addr"].split(";") if part.strip()):
        if not _is_address(address):
            raise _refusal(loaded, "namesrvAddr", "must be host:port, more separated by ;")


def _check_replication(loaded: Loaded, values: Mapping[str, Any]) -> None:
    is_slave = values["broker_role"] == SLAVE
    if is_slave and values["broker_id"] == 0:
        key = "brokerId" if loaded.is_set("brokerId") else "brokerRole"
        raise _refusal(loaded, key, "a slave needs a brokerId above 0; 0 is the master's")
    if not is_slave and values["broker_id"] != 0:
        text = f"a {values['broker_role']} has id 0; a slave needs brokerRole={SLAVE} too"
        raise _refusal(loaded, "brokerId", text)
    if values["broker_role"] == SYNC_MASTER and not values["ha_listen"]:
        raise _refusal(loaded, "haListen", "a SYNC_MASTER needs slaves: set it to true")
    _check_networks(loaded, "haAllowAddresses")
    address = str(values["ha_master_address"])
    if address and not _is_address(address):
        raise _refusal(loaded, "haMasterAddress", "must be host:port")


def _is_address(text: str) -> bool:
    """Whether a text is host:port."""
    host, _, port = text.strip().rpartition(":")
    return bool(host) and port.isdigit() and 0 < int(port) < 65536


def _server_tls(loaded: Loaded) -> ServerTlsSettings:
    """The TLS settings of a server; the server shows its own certificate unless test mode is set.

    A server that enforces TLS without a certificate must set test mode explicitly, because no
    client trusts the self-signed certificate.
    """
    _check_tls_files(loaded, "tls.server")
    given = bool(loaded.values["tls.server.certPath"])
    asked = loaded.is_set("tls.test.mode.enable")
    test_mode = bool(loaded.values["tls.test.mode.enable"]) and (asked or not given)
    made = frozen(ServerTlsSettings, loaded, tls_test_mode_enable=test_mode)
    if made.mode == "enforcing" and not (given or (asked and test_mode)):
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
        raise _refusal(loaded, cert, f"needs {key} as well: set both or neither")


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
