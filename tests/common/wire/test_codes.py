"""Request codes beside RocketMQ's: a code is RocketMQ's, with its name, or listed as ours."""

from __future__ import annotations

import pytest

from mqcommon.wire.codes import OUR_CODE_MIN, OUR_CODES, RequestCode
from mqserver.broker.table import PROCESSORS as BROKER
from mqserver.namesrv.processors import PROCESSORS as NAMES
from tests.common.wire.golden import FOLDER

CODES = "mqcommon/wire/codes.py"
ROCKETMQ = {
    int(number): name
    for number, name in map(
        str.split, (FOLDER.parent / "codes/request_codes.txt").read_text().splitlines()
    )
}
"""Every constant of RocketMQ 4.9.7's RequestCode."""
ROCKETMQ_5 = {361: "LITE_PULL_MESSAGE", 400: "QUERY_ASSIGNMENT", 401: "SET_MESSAGE_REQUEST_MODE"}


@pytest.mark.parametrize("code", RequestCode, ids=lambda code: code.name)
def test_a_code_is_rocketmqs_or_listed_as_ours(code: RequestCode) -> None:
    if code in OUR_CODES:
        assert code not in ROCKETMQ, f"{CODES}: {code} is RocketMQ's, take it out of OUR_CODES"
        assert OUR_CODE_MIN <= code < 1 << 15, f"{CODES}: number ours from {OUR_CODE_MIN} on"
    else:
        known = ROCKETMQ | ROCKETMQ_5
        assert code in known, f"{CODES}: RocketMQ has no code {int(code)}: add it to OUR_CODES"
        assert code.name == known[code], f"{CODES}: RocketMQ calls {int(code)} {known[code]}"


@pytest.mark.parametrize("table", [BROKER, NAMES], ids=["broker", "namesrv"])
def test_what_a_server_serves_has_a_name(table: dict[int, object]) -> None:
    unnamed = [int(code) for code in table if int(code) not in set(RequestCode)]
    assert not unnamed, f"{CODES}: add these to RequestCode"
