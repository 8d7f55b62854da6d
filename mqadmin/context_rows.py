"""Shared by the commands `context`: contexts as rows."""

from __future__ import annotations

import os
import sys

from mqadmin.contexts import Contexts
from mqadmin.report import Report

__all__ = ["report"]

COLUMNS = ("name", "current", "namesrv", "credentials", "tlsConfig", "addressMap")


def report(contexts: Contexts, *names: str) -> Report:
    """A row for each context; a note if NAMESRV_ADDR is set, which hides the current context."""
    if contexts.current and os.environ.get("NAMESRV_ADDR"):
        print(
            "note: NAMESRV_ADDR is set, so commands do not use the current context; "
            "unset it, or give --context NAME",
            file=sys.stderr,
        )
    return Report([_row(contexts, name) for name in names], columns=COLUMNS)


def _row(contexts: Contexts, name: str) -> dict[str, object]:
    context = contexts.contexts[name]
    variables = " ".join(f"${variable}" for variable in context.credentials_env)
    return {
        "name": name,
        "current": name == contexts.current,
        "namesrv": context.namesrv,
        "credentials": context.credentials or variables or None,
        "tlsConfig": context.tls_config or None,
        "addressMap": context.address_map or None,
    }
