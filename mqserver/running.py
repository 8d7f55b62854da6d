"""What the commands do: load, start, say so, wait for a signal, stop."""

from __future__ import annotations

import errno
import gc
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from mqserver.config.load import Loaded, SettingsError, load, pairs
from mqserver.config.places import broker_override, namesrv_override
from mqstore.commands.error_line import end
from mqstore.commands.exit_codes import FAILED, INTERRUPTED, POISONED, USAGE
from mqstore.commands.shortage import shortage

if TYPE_CHECKING:
    from mqserver.standalone import Standalone

BURST_S = 0.3
"""Signals closer together than this were meant as one."""


def fail(what: str, code: int = FAILED) -> NoReturn:
    """End the process with one clear line."""
    end("mqserver", what, code)


def say(line: str) -> None:
    """Print a line at once and in one piece, whichever thread calls."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def run_namesrv(file: str | None, settings: Mapping[str, str], show: str = "") -> None:
    """`mqserver namesrv start`."""
    loaded = load_namesrv(file, settings)
    if show:
        return _print(loaded, show)
    _log(loaded, "namesrv")
    _warn(loaded)
    from mqserver.names.server import NameServer

    allow_open_files()
    with clear_errors(loaded):
        server = NameServer(loaded)
        stopped = on_signals()
        server.start()
        _collect_garbage()
    _announce("The Name Server boot success. serializeType=JSON")
    _announce(f"listening on {server.settings.bind_address}:{server.port}")
    for warning in server.warnings:
        _warning(warning)
    stopped.wait()
    server.stop()
    return None


def run_broker(
    file: str | None, namesrv: str | None, settings: Mapping[str, str], show: str = ""
) -> None:
    """`mqserver broker start`."""
    loaded = load_broker(file, namesrv, settings)
    if show:
        return _print(loaded, show)
    _log(loaded, "broker")
    _warn(loaded)
    from mqserver.broker.broker import Broker

    allow_open_files()
    with clear_errors(loaded):
        server = Broker(loaded)
        stopped = on_signals()
        server.start()
        _collect_garbage()
    for line in boot_lines(
        server.settings.broker_name,
        server.address,
        server.settings.namesrv_addr,
        server.advertised.origin,
        server.settings.store_path_root_dir,
    ):
        _announce(line)
    for warning in server.advertised.warnings:
        _warning(warning)
    for address, why in server.away.items():
        _warning(f"NameServer {address} does not answer ({why}); will try again")
    stopped.wait()
    server.stop()
    if server.poisoned:
        fail("the store is poisoned: a write or fsync failed; see the log", POISONED)
    return None


def allow_open_files() -> None:
    """Raise the limit of open files as far as it may be, as a JVM does: each connection is one.

    What starts services often leaves it at 1,024, for programs that use select().
    """
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # some systems allow less than they say
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _collect_garbage() -> None:
    """From now on, without looking again and again at what was made for good."""
    gc.freeze()
    gc.enable()


def check_broker(file: str | None, settings: Mapping[str, str], strict: bool = False) -> None:
    """`mqserver broker check`. strict: what is ignored is an error."""
    from mqserver.config.settings import broker_settings, store_settings

    loaded = load_broker(file, None, settings)
    with clear_errors(loaded):
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


def run_standalone(
    data: str | None,
    host: str,
    advertise: str | None,
    settings: Mapping[str, str],
    namesrv_settings: Mapping[str, str],
) -> None:
    """`mqserver standalone`: RocketMQ's usual ports unless others are set."""
    allow_open_files()
    with clear_errors(None):
        both = _standalone(data, host, advertise, settings, namesrv_settings)
        folder = _standalone_log(both)
    stopped = on_signals()
    with clear_errors(None):
        both.start()
    say("The Name Server boot success. serializeType=JSON")
    name = both.broker_settings["brokerName"]
    root = str(both.data) + (", temporary, removed at the end" if both.is_temporary else "")
    told, origin = both.told
    for line in boot_lines(name, told, both.namesrv, origin, str(both.data), root):
        _announce(line)
    for warning in both.servers.warnings:
        _warning(warning)
    if folder:
        say(f"log: {folder}/standalone.log")
    _announce(f"ready: {both.namesrv} {both.broker_address}")
    stopped.wait()
    both.stop()


def _standalone(
    data: str | None,
    host: str,
    advertise: str | None,
    settings: Mapping[str, str],
    namesrv_settings: Mapping[str, str],
) -> Standalone:
    from mqserver.standalone import Standalone

    return Standalone(
        data,
        host=host,
        advertise=advertise,
        namesrv_port=9876,
        port=10911,
        settings={"fastPortEnable": "true", **settings},
        namesrv_settings=namesrv_settings,
    )


def _standalone_log(both: Standalone) -> str:
    """Send the log of both servers where `logDir` says, else beside the store of `--data`.

    Returns the folder, empty for a temporary store without `logDir`.
    """
    from mqserver.config.broker_table import BROKER
    from mqserver.config.namesrv_table import NAMESRV
    from mqserver.logs import set_up

    folder = {} if both.is_temporary else {"logDir": str(both.data / "mqstack" / "logs")}
    loaded = load(BROKER, flags=pairs({**folder, **both.broker_settings}, "--set"))
    set_up(loaded, "standalone")
    _warn(loaded)
    _warn(load(NAMESRV, flags=pairs(both.namesrv_settings, "--set-namesrv")))
    return str(loaded.values["logDir"])


def boot_lines(
    name: str, address: str, namesrv: str, origin: str, root: str, shown_root: str | None = None
) -> list[str]:
    """RocketMQ's boot line, then what an operator asks next."""
    asked = f" and name server is {namesrv}" if namesrv else ""
    import shutil  # the port is open by now

    free = shutil.disk_usage(root).free / (1 << 30)
    return [
        f"The broker[{name}, {address}] boot success. serializeType=JSON{asked}",
        f"clients will be told {address} (from: {origin})",
        f"store: {shown_root or root} ({free:.1f} GiB free)",
    ]


def load_broker(file: str | None, namesrv: str | None, settings: Mapping[str, str]) -> Loaded:
    """The broker's settings in RocketMQ's order of precedence."""
    from mqserver.config.broker_table import BROKER

    environment = [
        (key, os.environ[name], f"environment {name}")
        for key, name in (("namesrvAddr", "NAMESRV_ADDR"), ("rocketmqHome", "ROCKETMQ_HOME"))
        if os.environ.get(name)
    ]
    flags = pairs({"namesrvAddr": namesrv}, "-n") if namesrv else []
    with clear_errors(None):
        return load(
            BROKER,
            file=file,
            environment=environment,
            override=broker_override,
            flags=[*flags, *pairs(settings, "--set")],
        )


def load_namesrv(file: str | None, settings: Mapping[str, str]) -> Loaded:
    """The NameServer's settings in RocketMQ's order of precedence."""
    from mqserver.config.namesrv_table import NAMESRV

    home = os.environ.get("ROCKETMQ_HOME")
    with clear_errors(None):
        return load(
            NAMESRV,
            file=file,
            environment=pairs({"rocketmqHome": home}, "environment ROCKETMQ_HOME") if home else (),
            override=namesrv_override,
            flags=pairs(settings, "--set"),
        )


@contextmanager
def clear_errors(loaded: Loaded | None) -> Iterator[None]:
    """Turn what may go wrong at start into one line and an exit code.

    `cli.main` has a line for a lack of memory or threads.
    """
    try:
        yield
    except SettingsError as error:
        fail(str(error), USAGE)
    except OSError as error:
        if shortage(error):
            raise
        fail(_words(error, loaded))
    except Exception as error:
        from mqstore import StoreError

        if not isinstance(error, StoreError) or shortage(error):
            raise
        fail(str(error))


def _words(error: OSError, loaded: Loaded | None) -> str:
    """What an operating system's error means here."""
    text = error.strerror or str(error)
    if error.filename:
        text = f"{error.filename}: {text}"
    if error.errno == errno.EADDRINUSE:
        port = f" {loaded.values['listenPort']}" if loaded else ""
        return f"port{port} is in use: {text}; stop the other server or set another listenPort"
    return text


def on_signals() -> threading.Event:
    """An event set by SIGTERM or Ctrl-C; a second signal ends the process at once (130).

    Signals of one burst count as one: `timeout`, for instance, signals the process and its group.
    """
    stopped = threading.Event()
    first = [0.0]

    def handle(_number: int, _frame: FrameType | None) -> None:
        if not stopped.is_set():
            first[0] = time.monotonic()
            stopped.set()
        elif time.monotonic() - first[0] > BURST_S:
            os._exit(INTERRUPTED)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handle)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a closed terminal ends no server
    return stopped


def _print(loaded: Loaded, show: str) -> None:
    for line in loaded.lines(important_only=show == "important"):
        say(line)


def _log(loaded: Loaded, server: str) -> None:
    from mqserver.logs import set_up

    with clear_errors(loaded):
        set_up(loaded, server)


def _announce(line: str) -> None:
    """Say a line, and keep it in the log file if there is one."""
    say(line)
    logging.getLogger("mqserver").info("%s", line)


def _warn(loaded: Loaded) -> None:
    for warning in loaded.warnings:
        _warning(warning)


def _warning(text: str) -> None:
    """Log to standard error and the file; the log is set up by then."""
    logging.getLogger("mqserver").warning("%s", text)
