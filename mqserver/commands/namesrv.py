"""The command `mqserver namesrv start`."""

from __future__ import annotations

import os
from collections.abc import Mapping

from mqcommon.signals import stop_on_signals
from mqserver.commands.command_runtime import (
    allow_open_files,
    announce,
    announce_namesrv,
    keep_what_is_there,
    print_settings,
    serve_until,
    set_up_log,
    warn,
)
from mqserver.config.load import load, pairs
from mqserver.config.loaded import Loaded
from mqserver.config.namesrv_table import NAMESRV
from mqserver.config.paths import namesrv_override
from mqserver.namesrv.server import NameServer


def run_namesrv(file: str | None, settings: Mapping[str, str], show: str = "") -> None:
    """`mqserver namesrv start`: load the settings, run until a signal, stop.

    show: print the settings instead.
    """
    loaded = load_namesrv(file, settings)
    if show:
        return print_settings(loaded, show)
    set_up_log(loaded, "namesrv")
    allow_open_files()
    server = NameServer(loaded)
    stopped = stop_on_signals()
    server.start()
    keep_what_is_there()
    announce_namesrv()
    announce(f"listening on {server.settings.bind_address}:{server.port}")
    for warning in server.warnings:
        warn(warning)
    serve_until(stopped)
    server.stop()
    return None


def load_namesrv(file: str | None, settings: Mapping[str, str]) -> Loaded:
    """The NameServer's settings in RocketMQ's order of precedence."""
    home = os.environ.get("ROCKETMQ_HOME")
    return load(
        NAMESRV,
        file=file,
        environment=pairs({"rocketmqHome": home}, "environment ROCKETMQ_HOME") if home else (),
        override=namesrv_override,
        flags=pairs(settings, "--set"),
    )
