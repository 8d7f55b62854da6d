"""Writes the page of request codes from the routing tables of the servers.

`make pages` updates docs/protocol.md.
"""

from __future__ import annotations

import re
from pathlib import Path

from mqcommon.wire.codes import OUR_CODES, RequestCode
from mqserver.broker.table import PROCESSORS as BROKER
from mqserver.namesrv.processors import PROCESSORS as NAMES
from mqserver.runtime.guard import ACCOUNT_CODES, ADMIN_CODES
from tests.interop.differential.case_tables import BINARY, CASE_TABLES

RUST = Path(__file__).parent.parent / "rust"
ROUTE = RUST / "server/src/route.rs"
CODES = RUST / "format/src/codes.rs"
HEAD = """# Request codes

`make pages` writes this page from the routing tables of the servers.

The column *served* says who answers:

- *native*: the Rust data plane answers, or passes the request to the Python processor if its
  published tables do not allow an answer.
- *native when published*: the data plane repeats the last body that the processor encoded.
- *Python*: always the Python processor.

With `dataPlane=python` the processors answer all requests.

The column *admin* says who may send the request:

- *yes*: only clients on this machine and at `adminAllowAddresses`; with access control also only
  accounts with `admin: true`.
- *with ACL*: with access control, only accounts with `admin: true`.

The column *tests* names tables of the differential suite
(`tests/interop/differential/tables`). The suite sends the same requests to RocketMQ 4.9.7: most
tables once with JSON headers and once with ROCKETMQ headers.
"""
#: The variant of `Native` that answers, and its file.
FILES = {
    "Send": "send.rs", "Pull": "pull.rs", "QueryOffset": "offsets.rs",
    "CommitOffset": "offsets.rs", "MaxOffset": "offsets.rs", "MinOffset": "offsets.rs",
    "EndTransaction": "transaction.rs", "ConsumerList": "published.rs", "Lock": "lock.rs",
    "Unlock": "lock.rs", "Heartbeat": "heartbeat.rs", "TopicRoute": "published.rs",
}  # fmt: skip
PUBLISHED = ("ConsumerList", "TopicRoute")


def natives(kind: str) -> dict[int, str]:
    """Codes that a kind of server may answer natively, each with its variant of `Native`."""
    text = ROUTE.read_text()
    constants = dict(re.findall(r"pub const (\w+): i32 = (\d+);", CODES.read_text()))
    found = {}
    for codes, variant in re.findall(rf"\(Kind::{kind}, ([^)]+)\) => Self::(\w+)", text):
        for code in codes.split(" | "):
            found[int(constants.get(code, code))] = variant
    return found


def page() -> str:
    """The page as Markdown. Raises LookupError if no server answers a code of our own."""
    unserved = sorted(code.name for code in OUR_CODES.keys() - BROKER.keys() - NAMES.keys())
    if unserved:
        raise LookupError(
            f"no server answers {unserved}: add a row to mqserver/broker/table.py, "
            "or to PROCESSORS in mqserver/namesrv/processors.py"
        )
    broker = {
        int(code): f"mqserver/broker/processors/{processor.__module__.rpartition('.')[2]}.py "
        f"`{processor.__name__}`"
        for code, (_, processor) in BROKER.items()
    }
    names = {
        int(code): f"mqserver/namesrv/processors.py `{processor.__name__}`"
        for code, processor in NAMES.items()
    }
    lines = [HEAD, "## Broker\n", *_table(broker, natives("Broker"), namesrv=False), ""]
    lines += ["## NameServer\n", *_table(names, natives("NameServer"), namesrv=True), ""]
    lines += ["## From the broker to clients\n", *_calls(), ""]
    rest = [code for code in RequestCode if int(code) not in broker.keys() | names.keys()]
    lines += ["## Not served\n"]
    lines += [
        "The broker answers these codes with 3, request type not supported. The NameServer does\n"
        "not answer.\n"
    ]
    lines += [", ".join(f"{code.name} ({int(code)})" for code in rest), ""]
    return "\n".join(lines)


def _table(rows: dict[int, str], native: dict[int, str], *, namesrv: bool) -> list[str]:
    lines = ["| code | name | admin | served | by | tests |", "|---|---|---|---|---|---|"]
    for code, processor in sorted(rows.items()):
        variant = native.get(code)
        served, by = "Python", processor
        if variant:
            served = "native when published" if variant in PUBLISHED else "native"
            by = f"rust/server/src/requests/{FILES[variant]}, {processor}"
        tests = ", ".join(_tests(code, namesrv))
        admin = "yes" if code in ADMIN_CODES else "with ACL" if code in ACCOUNT_CODES else ""
        name = RequestCode(code).name
        lines.append(f"| {code} | {name} | {admin} | {served} | {by} | {tests} |")
    return lines


def _tests(code: int, namesrv: bool) -> list[str]:
    """The tables that send this code to this server; RocketMQ does not know our own codes."""
    if code in OUR_CODES:
        return ["mqstack's own"]
    return [
        table
        for table, cases in CASE_TABLES.items()
        if not table.startswith(BINARY)
        and any(case.code == code and (case.server == "namesrv") == namesrv for case in cases)
    ]


def _calls() -> list[str]:
    """Rows of the requests from broker to clients, with the tables that test them."""
    heard: dict[int, dict[str, None]] = {}
    for table, cases in CASE_TABLES.items():
        for case in cases:
            if case.hears and not table.startswith(BINARY):
                heard.setdefault(case.hears[1], {})[table] = None
    rows = [
        f"| {code} | {RequestCode(code).name} | {', '.join(tables)} |"
        for code, tables in sorted(heard.items())
    ]
    return ["| code | name | tests |", "|---|---|---|", *rows]
