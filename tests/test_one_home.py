"""Facts and techniques that several packages need have one home; a copy elsewhere fails here.

Each failure names the home to import from.
"""

import ast
import re
from functools import cache
from pathlib import Path

from mqcommon import names
from tests.sources import ROOT, name, nodes_of, text_of

PACKAGES = ("mqcommon", "mqstore", "mqclient", "mqadmin", "mqserver", "mqpipeline")
MODULES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


@cache
def texts(path: Path) -> tuple[tuple[int, str], ...]:
    """Line and value of each text of a module that is no docstring."""
    prose = {
        id(statement.value)
        for node in nodes_of(path)
        if isinstance(getattr(node, "body", None), list)
        for statement in node.body  # type: ignore[attr-defined]
        if isinstance(statement, ast.Expr)
    }
    return tuple(
        (node.lineno, node.value)
        for node in nodes_of(path)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose
    )


RESERVED = {
    *names.SYSTEM_TOPICS,
    *names.SYSTEM_GROUPS,
    *(value for key, value in vars(names).items() if key.endswith(("_PREFIX", "_GROUP"))),
}


def test_the_names_of_rocketmq_are_known() -> None:
    assert {"%RETRY%", "%DLQ%", "TBW102", "CID_RMQ_SYS_TRANS", "TOOLS_CONSUMER"} <= RESERVED


def test_rocketmqs_names_are_written_once() -> None:
    found = [
        f"{name(path)}:{line} {text!r}"
        for path in MODULES
        for line, text in texts(path)
        if text in RESERVED and name(path) != "mqcommon/names.py"
    ]
    assert not found, f"import these names from mqcommon/names.py: {found}"


def test_javas_hash_code_is_computed_once() -> None:
    found = [name(path) for path in MODULES if re.search(r"\b31 \* \w+", text_of(path))]
    assert found == ["mqcommon/names.py"], "use java_hash of mqcommon/names.py"


REPLACES = re.compile(
    r"\bos\.(?:replace|rename|link|fsync|fdatasync)\(|\.rename\(|\b(?:mkstemp|NamedTemp)"
)


def test_files_are_replaced_in_one_place() -> None:
    found = [name(path) for path in MODULES if REPLACES.search(text_of(path))]
    assert found == ["mqcommon/files.py"], (
        "use atomic_file, replace or StateFile of mqcommon/files.py"
    )


def test_the_machines_own_address_is_found_in_one_place() -> None:
    texts = {name(path): text_of(path) for path in MODULES}
    found = [path for path, text in texts.items() if "SOCK_DGRAM" in text and "AF_UNIX" not in text]
    assert found == ["mqcommon/own_address.py"], "use mqcommon/own_address.py"


def test_properties_of_messages_are_written_in_one_place() -> None:
    found = [
        f"{name(path)}:{line}"
        for path in MODULES
        for line, text in texts(path)
        if {"\x01", "\x02"} & set(text) and name(path) != "mqcommon/property_text.py"
    ]
    assert not found, f"use mqcommon/property_text.py, or encode_properties: {found}"


KEY_VALUE_LINES = re.compile(r"=\{\w+\}\\n")


def test_properties_files_are_written_in_one_place() -> None:
    found = [name(path) for path in MODULES if KEY_VALUE_LINES.search(text_of(path))]
    assert not found, f"use render of mqcommon/java_properties.py: {found}"


COMMANDS = re.compile(r"\b(?:EXIT_\w+|[A-Z]*USAGE[A-Z_]*|INTERRUPTED|DENIED) = \d|\bos\.dup2\(")


def test_exit_codes_and_broken_pipes_have_one_home() -> None:
    found = {name(path) for path in MODULES if COMMANDS.search(text_of(path))}
    homes = {"mqcommon/cli/exit_codes.py", "mqcommon/cli/running.py"}
    assert found == homes, f"use {sorted(homes)}"


OWN_LOOP = re.compile(r"time\.sleep\(|monotonic\(\) (?:<|>) \w*deadline")
FOR_GOOD_REASON = {
    "tests/waiting.py": "the home",
    "tests/server/floods/test_queries.py": "sends at a pace, for a time",
    "tests/server/floods/wire_floods.py": "sends at a pace",
    "tests/client/test_run.py": "a program whose handler runs while the signal comes",
    "tests/bad_input/test_signals.py": "a program that is interrupted, and the length of a burst",
    "tests/interop/differential/stand.py": "asks again on a connection that may close",
    "tests/interop/test_native_codes.py": "sends until enough was counted",
}


def test_tests_wait_by_one_helper() -> None:
    files = {name(path): path for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__)}
    found = {key for key, path in files.items() if OWN_LOOP.search(text_of(path))}
    assert found <= FOR_GOOD_REASON.keys(), "wait with tests/waiting.py"
    assert found >= FOR_GOOD_REASON.keys(), "no reason is needed any more: take it out"
