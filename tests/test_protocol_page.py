"""docs/protocol.md says what the tables say."""

from __future__ import annotations

from pathlib import Path

from mqserver.broker.table import PROCESSORS as BROKER
from mqserver.names.processors import PROCESSORS as NAMES
from scripts import protocol_page

PAGE = Path(__file__).parent.parent / "docs" / "protocol.md"


def test_page_is_up_to_date() -> None:
    assert PAGE.read_text() == protocol_page.page(), (
        "run: python -m scripts.protocol_page > docs/protocol.md"
    )


def test_natives_are_read_from_the_route_table() -> None:
    assert {10, 11, 14, 15, 30, 31, 37, 38, 41, 42, 310, 320} <= set(
        protocol_page.natives("Broker")
    )
    folder = protocol_page.ROUTE.parent / "requests"
    assert [name for name in protocol_page.FILES.values() if not (folder / name).is_file()] == []
    assert set(protocol_page.natives("NameServer")) == {105}


def test_every_served_code_is_sent_to_java_too() -> None:
    untested = [
        line
        for line in protocol_page.page().splitlines()
        if line.startswith("| ") and line.endswith("|  |")
    ]
    assert not untested, (
        "no family sends these to Java: add cases to a file in tests/interop/differential/tables/"
    )
    assert len(BROKER) + len(NAMES) > 75
