"""Writes every page and table that is made from the code; `make pages` runs it.

Tests compare the files with the code (`tests/test_pages.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from mqserver.broker.acl.rights import page_rows
from mqserver.broker.table import PROCESSORS
from mqserver.config import page as settings_page
from scripts import (
    blocking_admin,
    client_options_page,
    metrics_page,
    mqadmin_page,
    protocol_page,
    public_api,
    tested_page,
)

ROOT = Path(__file__).parent.parent
WRITTEN: dict[str, Callable[[], str]] = {
    "mqclient/blocking/admin_groups.py": blocking_admin.page,  # first, as others import it
    "docs/client/options.md": client_options_page.page,
    "docs/metrics.md": metrics_page.page,
    "docs/operations/mqadmin.md": mqadmin_page.page,
    "docs/operations/tested.md": tested_page.page,
    "docs/protocol.md": protocol_page.page,
    "docs/settings.md": settings_page.page,
    "tests/client/public_api.txt": public_api.page,
}
"""Files that are written as a whole."""
BEGIN, END = "<!-- written by `make pages` -->", "<!-- end -->"


def _rights() -> str:
    rows = page_rows([int(code) for code in PROCESSORS])
    return "\n".join(["| code | request | right | why |", "|---|---|---|---|", *rows])


TABLES: dict[str, Callable[[], str]] = {"docs/acl.md": _rights}
"""Pages with one table that is written, between `BEGIN` and `END`."""


def texts() -> Iterator[tuple[str, str]]:
    """What each of the files should hold, one after the other."""
    for path, page in WRITTEN.items():
        yield path, page()
    for path, table in TABLES.items():
        before, _, rest = (ROOT / path).read_text().partition(BEGIN)
        _, _, after = rest.partition(END)
        yield path, f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


if __name__ == "__main__":
    for name, text in texts():
        if (ROOT / name).read_text() != text:
            (ROOT / name).write_text(text)
            print(f"wrote {name}")
