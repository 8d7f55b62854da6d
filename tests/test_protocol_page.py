"""The tables of codes that docs/protocol.md is made of."""

from __future__ import annotations

import pytest

from mqcommon.wire.codes import OUR_CODES, Access, RequestCode
from mqserver.broker.table import PROCESSORS as BROKER
from mqserver.namesrv.processors import PROCESSORS as NAMES
from scripts import protocol_page
from tests.interop.differential.case_tables import CASE_TABLES
from tests.interop.differential.tables.unknown import LATER, UNSERVED

OF_EVERY_CODE = ("bad", "names_bad")
"""Tables that send every served code with bad fields, by themselves."""


def test_natives_are_read_from_the_route_table() -> None:
    assert {10, 11, 14, 15, 30, 31, 37, 38, 41, 42, 310, 320} <= set(
        protocol_page.natives("Broker")
    )
    folder = protocol_page.ROUTE.parent / "requests"
    assert [name for name in protocol_page.FILES.values() if not (folder / name).is_file()] == []
    assert set(protocol_page.natives("NameServer")) == {105}


@pytest.mark.parametrize("server", ["broker", "namesrv"])
def test_every_served_code_is_sent_to_java_too(server: str) -> None:
    asked = {
        int(case.code)
        for table, cases in CASE_TABLES.items()
        for case in cases
        if table not in OF_EVERY_CODE
        and case.name != f"code {case.code}"  # unknown codes
        and (case.server == "namesrv") == (server == "namesrv")
    }
    served = {int(code) for code in (NAMES if server == "namesrv" else BROKER)}
    untested = sorted(served - asked - OUR_CODES.keys())
    assert not untested, (
        f"no table asks {server} for {untested} with good fields: "
        "add cases to a file in tests/interop/differential/tables/"
    )


def test_a_code_of_ours_without_a_row_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unserved = RequestCode.LITE_PULL_MESSAGE
    monkeypatch.setattr(protocol_page, "OUR_CODES", {unserved: Access.EVERYBODY})
    with pytest.raises(LookupError, match=r"LITE_PULL_MESSAGE.*: add a row to mqserver/broker/tab"):
        protocol_page.page()


def test_no_served_code_is_listed_as_one_that_nobody_serves() -> None:
    served = sorted({int(code) for code in BROKER} & {*UNSERVED, *LATER})
    assert not served, (
        f"take {served} out of UNSERVED or LATER in tests/interop/differential/tables/unknown.py"
    )
