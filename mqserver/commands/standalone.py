"""`mqserver standalone`: both servers in one process, on RocketMQ's usual ports unless set."""

from __future__ import annotations

from collections.abc import Mapping

from mqcommon.signals import stop_on_signals
from mqserver.commands.command_runtime import (
    allow_open_files,
    announce,
    announce_broker,
    announce_namesrv,
    fail_poisoned,
    keep_what_is_there,
    say,
    serve_until,
    warn,
    warn_of,
)
from mqserver.config.loaded import SettingsError
from mqserver.embedded.in_process import pair_broker, pair_namesrv
from mqserver.embedded.standalone import Standalone
from mqserver.runtime.logs import set_up
from mqserver.runtime.ports import PortInUseError


def run_standalone(
    data: str | None,
    host: str,
    advertise: str | None,
    settings: Mapping[str, str],
    namesrv_settings: Mapping[str, str],
    slaves: int = 0,
) -> None:
    """Run `mqserver standalone` until a signal stops it."""
    allow_open_files()
    both = _standalone(data, host, advertise, settings, namesrv_settings, slaves)
    try:
        folder = _standalone_log(both)
    except SettingsError:
        both.stop()  # removes a temporary store
        raise
    stopped = stop_on_signals()
    try:
        both.start()
    except PortInUseError as error:
        option = f"{error.flag} {error.setting}=VALUE"
        raise OSError(error.errno, f"{error.strerror}: {option}") from error
    keep_what_is_there()
    announce_namesrv()
    name = both.broker_settings["brokerName"]
    root = str(both.data) + (", temporary, removed at the end" if both.is_temporary else "")
    announce_broker(
        name, both.advertised_address, both.namesrv, both.address_origin, str(both.data), root
    )
    for warning in both.servers.warnings:
        warn(warning)
    for number, address in enumerate(both.slave_addresses, 1):
        say(f"slave {number}: {address}")
    if folder:
        say(f"log: {folder}/standalone.log")
    announce(f"ready: {both.namesrv} {both.broker_address}")
    serve_until(stopped)
    servers = both.servers
    both.stop()
    if servers.poisoned:
        fail_poisoned()


def _standalone(
    data: str | None,
    host: str,
    advertise: str | None,
    settings: Mapping[str, str],
    namesrv_settings: Mapping[str, str],
    slaves: int,
) -> Standalone:
    return Standalone(
        data,
        host=host,
        advertise=advertise,
        namesrv_port=9876,
        port=10911,
        settings={"fastPortEnable": "true", **settings},
        namesrv_settings=namesrv_settings,
        slaves=slaves,
    )


def _standalone_log(both: Standalone) -> str:
    """Write the log of both servers to `logDir`, else into the store directory of `--data`.

    Returns the folder; "" for a temporary store without `logDir`, which has no log file.
    """
    folder = {} if both.is_temporary else {"logDir": str(both.data / "mqstack" / "logs")}
    loaded = pair_broker({**folder, **both.broker_settings}, "--set")
    set_up(loaded, "standalone")
    warn_of(loaded)
    warn_of(pair_namesrv(both.namesrv_settings, "--set-namesrv"))
    return str(loaded.values["logDir"])
