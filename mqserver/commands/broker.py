"""The commands `mqserver broker start` and `mqserver broker check`."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from mqcommon.cli.exit_codes import USAGE
from mqcommon.signals import stop_on_signals
from mqserver.broker.broker import Broker
from mqserver.commands.command_runtime import (
    allow_open_files,
    announce_broker,
    fail_poisoned,
    keep_what_is_there,
    print_settings,
    say,
    serve_until,
    set_up_log,
    warn,
)
from mqserver.config.broker_table import BROKER
from mqserver.config.load import load, pairs
from mqserver.config.loaded import Loaded
from mqserver.config.paths import broker_override
from mqserver.config.settings import broker_settings, store_settings
from mqserver.registration.advertised import ENVIRONMENT, advertised_keys

_UNIT_HOURS = {"s": 1 / 3600, "m": 1 / 60, "h": 1, "d": 24}


def run_broker(
    file: str | None, namesrv: str | None, settings: Mapping[str, str], show: str = ""
) -> None:
    """`mqserver broker start`: load the settings, run until a signal, stop.

    show: print the settings instead.
    """
    loaded = load_broker(file, namesrv, settings)
    if show:
        return print_settings(loaded, show)
    set_up_log(loaded, "broker")
    allow_open_files()
    server = Broker(loaded)
    stopped = stop_on_signals()
    server.start()
    keep_what_is_there()
    announce_broker(
        server.settings.broker_name,
        server.address,
        server.settings.namesrv_addr,
        server.advertised.origin,
        server.settings.store_path_root_dir,
    )
    for warning in server.advertised.warnings:
        warn(warning)
    for address, why in server.away.items():
        warn(f"NameServer {address} does not answer ({why}); the broker tries again")
    serve_until(stopped)
    server.stop()
    if server.poisoned:
        fail_poisoned()
    return None


def check_broker(file: str | None, settings: Mapping[str, str], strict: bool = False) -> None:
    """`mqserver broker check`. strict: a warning, for example of an unknown key, is an error."""
    loaded = load_broker(file, None, settings)
    settings_read = broker_settings(loaded)
    store_settings(loaded)
    if settings_read.acl_enable:
        from mqserver.broker.acl.control import check_files

        check_files(settings_read)
    for warning in loaded.warnings:
        word = "error" if strict else "warning"
        print(f"mqserver: {word}: {warning}", file=sys.stderr, flush=True)
    if strict and loaded.warnings:
        raise SystemExit(USAGE)
    chosen = sum(1 for key in loaded.table if loaded.is_set(key))
    say(f"{file or 'the defaults'}: fine, {chosen} keys set, {len(loaded.warnings)} warnings")


def load_broker(file: str | None, namesrv: str | None, settings: Mapping[str, str]) -> Loaded:
    """The broker's settings in RocketMQ's order of precedence."""
    environment = [
        (key, os.environ[name], f"environment {name}")
        for key, name in (("namesrvAddr", "NAMESRV_ADDR"), ("rocketmqHome", "ROCKETMQ_HOME"))
        if os.environ.get(name)
    ]
    environment += pairs(advertised_keys(os.environ.get(ENVIRONMENT)), f"environment {ENVIRONMENT}")
    flags = pairs({"namesrvAddr": namesrv}, "-n") if namesrv else []
    loaded = load(
        BROKER,
        file=file,
        environment=environment,
        override=broker_override,
        flags=[*flags, *pairs(settings, "--set")],
    )
    _warn_of_long_delays(loaded)
    return loaded


def _warn_of_long_delays(loaded: Loaded) -> None:
    """Warn of delay levels whose messages the cleaner deletes before they are due."""
    store = store_settings(loaded)
    reserved_hours = store.reserved_hours
    delays = store.delay_levels.split()
    long = [delay for delay in delays if _hours(delay) >= reserved_hours]
    if long:
        loaded.warnings.append(
            f"messageDelayLevel: the delays {' '.join(long)} are not shorter than fileReservedTime="
            f"{reserved_hours} hours; messages with these delays are deleted before they are "
            "delivered, so raise fileReservedTime"
        )


def _hours(delay: str) -> float:
    """A delay such as 30m in hours; 0 for text that is no delay, which the store refuses."""
    count, unit = delay[:-1], delay[-1:]
    return int(count) * _UNIT_HOURS.get(unit, 0) if count.isdecimal() else 0
