"""The stand's wait for the broker's queues, without servers."""

from __future__ import annotations

import json
from collections.abc import Iterable

from mqcommon.wire.codes import RequestCode, ResponseCode
from mqcommon.wire.frame import Frame
from tests.interop.differential import stand
from tests.interop.differential.accounts import ADMIN
from tests.interop.differential.case import Case

SEND = Case("send", RequestCode.SEND_MESSAGE, {})
LOOK = Case("look", RequestCode.GET_MAX_OFFSET, {})


def answer(code: int, behind: str = "0") -> Frame:
    body = json.dumps({"table": {"dispatchBehindBytes": behind}}).encode()
    return Frame(RequestCode.GET_BROKER_RUNTIME_INFO).reply(code, None, {}, body)


class Scripted(stand.Stand):
    """Answers requests for the dispatch progress from a list, and all others with success."""

    def __init__(self, answers: Iterable[Frame | None], guarded: bool = False) -> None:
        self._guarded = guarded
        self._kept = {}
        self.answers = list(answers)
        self.asked: list[Case] = []

    def _once(self, case: Case, lines: object) -> tuple[Frame | None, object]:
        self.asked.append(case)
        if case.code == stand.SETTLED.code:
            return self.answers.pop(0), None
        return answer(ResponseCode.SUCCESS), None


def test_it_asks_until_the_queues_hold_what_the_log_does() -> None:
    refused = answer(ResponseCode.SYSTEM_ERROR)
    late = answer(ResponseCode.SUCCESS, behind="91")
    servers = Scripted([None, refused, late, answer(ResponseCode.SUCCESS), late])
    servers._settle({})
    assert servers.answers == [late], "four answers were needed"
    assert {case.account for case in servers.asked} == {None}


def test_a_guarded_broker_is_asked_by_an_administrator() -> None:
    servers = Scripted([answer(ResponseCode.SUCCESS)], guarded=True)
    servers._settle({})
    assert [case.account for case in servers.asked] == [ADMIN]


def test_only_requests_that_may_store_are_waited_for() -> None:
    servers = Scripted([answer(ResponseCode.SUCCESS)])
    assert servers.play([SEND, LOOK]).keys() == {"send", "look"}
    assert [case.name for case in servers.asked] == ["send", stand.SETTLED.name, "look"]
