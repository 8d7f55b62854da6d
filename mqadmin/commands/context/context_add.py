"""mqadmin context add: save the address, account and TLS of a cluster under a name."""

from __future__ import annotations

import os
import re

from mqadmin import contexts
from mqadmin.command import NAMESRV_OPTION, Arguments, Command, Option
from mqadmin.context_rows import report
from mqadmin.contexts import Context
from mqadmin.report import Report
from mqclient.admin import Admin
from mqclient.cli.connection import read_options
from mqcommon.cli.running import WrongArguments

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


async def run(_admin: Admin, arguments: Arguments) -> Report:
    """Save it. The named files must be usable, and the named variables set."""
    name = contexts.check_name(arguments.required("name"))
    context = Context(
        arguments.required("namesrvAddr"),
        _path(arguments.text("credentials")),
        _variables(arguments.text("credentials-env")),
        _path(arguments.text("tls-config")),
        arguments.text("address-map") or "",
    )
    if context.credentials and context.credentials_env:
        raise WrongArguments("give --credentials or --credentials-env, not both")
    read_options(
        {
            "credentials": context.credentials,
            "tls": context.tls_config,
            "address_map": context.address_map,
        }
    )
    with contexts.changing() as known:
        if name in known.contexts and not arguments.flag("replace"):
            raise WrongArguments(f"context {name!r} exists; change it with --replace")
        known.contexts[name] = context
        if arguments.flag("use"):
            known.current = name
    return report(known, name)


def _path(path: str | None) -> str:
    """An absolute path: later commands may run in another folder."""
    return os.path.abspath(path) if path else ""


def _variables(text: str | None) -> list[str]:
    """The names of variables; the error does not show them, because they may be the keys."""
    names = [name.strip() for name in text.split(",")] if text else []
    if names and len(names) not in (2, 3):
        raise WrongArguments("--credentials-env needs two or three names, with commas between them")
    for place, name in enumerate(names, start=1):
        if not _VARIABLE.fullmatch(name) or not os.environ.get(name):
            raise WrongArguments(
                f"name {place} of --credentials-env is no environment variable that is set; "
                "give the names of variables, never the keys themselves"
            )
    return names


CONTEXT_ADD = Command(
    "context add",
    run,
    [
        Option(NAMESRV_OPTION.short, NAMESRV_OPTION.long, NAMESRV_OPTION.help, required=True),
        Option("", "credentials", "tools.yml with accessKey and secretKey"),
        Option(
            "", "credentials-env",
            "Environment variables with the access key, the secret key and optionally the "
            "security token: ACCESS,SECRET",
        ),
        Option("", "tls-config", "tls.properties: use TLS"),
        Option("", "address-map", "Broker addresses to replace: FROM=TO,..."),
        Option("", "use", "Make it the current context", takes_value=False),
        Option("", "replace", "Replace a context of this name", takes_value=False),
    ],
    positional="NAME",
    connects=False,
    description="Save the address, account and TLS of a cluster under a name",
)  # fmt: skip
