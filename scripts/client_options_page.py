"""Writes the page of the client's options from their declarations in `mqclient.settings`.

`make pages` updates docs/client/options.md.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import mqclient
from mqclient.settings.declare import Declared, Row, rows

HEAD = """# Options of the client

`make pages` writes this page from the declarations in `mqclient/settings/`.

Options are keyword arguments: `Producer("127.0.0.1:9876", timeout=5.0, linger=Linger(0.005))`. A
client takes the options of every client and the options of its kind. Options that belong together
are one frozen value. `help(Producer)` shows the same declarations.

Times are seconds. `None` means "none": no limit, no regular commit, no compression. An unknown
option is refused, and the error names the nearest known option. A value of the wrong type or
out of range is refused: the error names the option and the value, and says what is expected.
"""

CLIENTS: dict[str, tuple[type[Declared], type[Declared] | None, str]] = {
    "Every client": (mqclient.ClientOptions, None, ""),
    "Producer": (mqclient.ProducerOptions, mqclient.ClientOptions, "Producer"),
    "Transaction producer": (
        mqclient.TransactionOptions,
        mqclient.ProducerOptions,
        "TransactionProducer",
    ),
    "Push consumer": (mqclient.PushOptions, mqclient.ClientOptions, "PushConsumer"),
    "Lite pull consumer": (mqclient.LitePullOptions, mqclient.ClientOptions, "LitePullConsumer"),
    "Admin": (mqclient.AdminOptions, mqclient.ClientOptions, "Admin"),
}
"""By title: the declarations, the declarations of another section, and the client."""
VALUES = (
    *(mqclient.Connection, mqclient.Credentials, mqclient.TlsConfig, mqclient.ClientId),
    *(mqclient.Retry, mqclient.Linger, mqclient.SendLimits, mqclient.Compression),
    *(mqclient.CheckLimits, mqclient.Trace, mqclient.Orderly, mqclient.Limits, mqclient.Pull),
    *(mqclient.LitePullLimits, mqclient.LitePull),
)


def page() -> str:
    """The page as Markdown."""
    parts = [HEAD]
    for title, (kind, base, client) in CLIENTS.items():
        inherited = {row.name for row in rows(base)} if base else set()
        others = (
            "those of `Producer`" if title.startswith("Transaction") else "those of every client"
        )
        parts.append(f"## {title}\n")
        parts += [f"Arguments of `{client}`, besides {others}.\n"] if client else []
        parts += [*_table([row for row in rows(kind) if row.name not in inherited]), ""]
    parts.append("## Values\n")
    for kind in VALUES:
        about = " ".join((inspect.getdoc(kind) or "").split("\n\n")[0].split())
        parts += [f"### {kind.__name__}\n", f"{about}\n", *_table(list(rows(kind))), ""]
    return "\n".join(parts)


def _table(listed: list[Row]) -> Iterator[str]:
    yield "| option | type | default | range | meaning |"
    yield "|---|---|---|---|---|"
    for row in listed:
        limits = f"{row.range} {row.unit}".rstrip() if row.range else ""
        kind = _escaped(row.annotation)
        cells = (f"`{row.name}`", f"`{kind}`", _default(row), limits, row.option.about)
        yield f"| {' | '.join(cells)} |"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def _default(row: Row) -> str:
    return "required" if row.required else f"`{row.default!r}`"
