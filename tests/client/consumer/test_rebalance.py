"""Shares of queues: by RocketMQ's strategies, by a list, and by a function of the user's."""

import pytest

from mqclient.consumer.allocation import STRATEGIES, Allocation, allocate, strategy_of
from mqcommon.message import MessageQueue

QUEUES = [MessageQueue("T", "a", i) for i in range(8)]
RETRY = [MessageQueue("%RETRY%g", "a", 0)]
MEMBERS = [f"192.168.0.{i + 1}@{4000 + i}#12345" for i in range(9)]


def shares(allocation: Allocation, queues: list[MessageQueue], members: list[str]) -> str:
    """The number of the member that gets each queue."""
    strategy = strategy_of(allocation)
    owners = {
        queue: number
        for number, member in enumerate(members)
        for queue in allocate(strategy, member, queues, members) or []
    }
    return "".join(str(owners[queue]) for queue in queues)


@pytest.mark.parametrize(
    ("name", "brokers", "each", "members", "wanted"),
    [
        ("AVG", 2, 8, 1, "0000000000000000"),
        ("AVG", 2, 8, 3, "0000001111122222"),
        ("AVG", 1, 4, 3, "0012"),
        ("AVG", 2, 8, 5, "0000111222333444"),
        ("AVG", 2, 8, 9, "0011223344556678"),
        ("AVG_BY_CIRCLE", 2, 8, 2, "0101010101010101"),
        ("AVG_BY_CIRCLE", 1, 4, 3, "0120"),
        ("AVG_BY_CIRCLE", 2, 8, 5, "0123401234012340"),
        ("AVG_BY_CIRCLE", 2, 8, 9, "0123456780123456"),
        ("CONSISTENT_HASH", 2, 8, 1, "0000000000000000"),
        ("CONSISTENT_HASH", 2, 8, 2, "1000011010001010"),
        ("CONSISTENT_HASH", 2, 8, 3, "1202211210222210"),
        ("CONSISTENT_HASH", 3, 16, 3, "120221122100101110222210001200210010222021110001"),
        ("CONSISTENT_HASH", 2, 8, 5, "3232214433244310"),
        ("CONSISTENT_HASH", 2, 8, 9, "6232874778577316"),
    ],
)
def test_shares_are_those_of_java(name, brokers, each, members, wanted):
    """The results of RocketMQ 4.9.7's classes for these queues and client ids."""
    queues = [
        MessageQueue("TopicTest", f"broker-{b}", q) for b in "abc"[:brokers] for q in range(each)
    ]
    assert shares(name, queues, MEMBERS[:members]) == wanted


def test_a_hash_of_a_name_outside_latin_is_java_s_too():
    queues = [MessageQueue("TopicTest", f"broker-{b}", q) for b in "ab" for q in range(8)]
    members = ["a@DEFAULT", "b@DEFAULT", "中@DEFAULT"]
    assert shares("CONSISTENT_HASH", queues, members) == "1101012020102200"


def test_some_members_get_nothing_when_there_are_few_queues():
    assert [allocate(STRATEGIES["AVG"], m, QUEUES[:2], "abcd") for m in "abcd"] == [
        QUEUES[:1],
        QUEUES[1:2],
        [],
        [],
    ]


def test_a_member_that_is_not_listed_has_no_say():
    assert allocate(STRATEGIES["AVG"], "me", QUEUES, ["you"]) is None


def test_order_of_what_brokers_say_does_not_matter():
    one = allocate(STRATEGIES["AVG"], "b", reversed(QUEUES), ["b", "a"])
    assert one == QUEUES[4:]


def test_fixed_queues_are_read_whatever_others_do():
    strategy = strategy_of([QUEUES[5], QUEUES[1], MessageQueue("Other", "a", 0)])
    assert allocate(strategy, "a", QUEUES, ["a", "b"]) == [QUEUES[1], QUEUES[5]]
    assert allocate(strategy, "b", QUEUES[2:4], ["a", "b"]) == []
    assert allocate(strategy, "a", RETRY, ["a", "b"]) == RETRY, "retries are shared evenly"
    assert allocate(strategy, "b", RETRY, ["a", "b"]) == []


def test_a_function_of_the_user_decides():
    def backwards(client_id, queues, client_ids):
        return reversed(queues) if client_id == client_ids[-1] else ()

    assert allocate(backwards, "b", QUEUES, ["a", "b"]) == QUEUES
    assert allocate(backwards, "a", QUEUES, ["a", "b"]) == []


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda *_: 1 / 0, "strategy failed: ZeroDivisionError"),
        (lambda *_: None, "strategy failed: TypeError"),
        (lambda *_: RETRY, "gave MessageQueue.*which is not of"),
    ],
)
def test_a_function_that_fails_is_said_to(function, text):
    with pytest.raises(ValueError, match=text):
        allocate(function, "a", QUEUES, ["a"])


@pytest.mark.parametrize(
    ("allocation", "error", "text"),
    [
        ("HASH", ValueError, "use AVG, AVG_BY_CIRCLE, CONSISTENT_HASH, a list"),
        ([], ValueError, "names no queue"),
        ([1], TypeError, "holds 1"),
        (5, TypeError, "not int"),
    ],
)
def test_what_is_no_strategy_is_refused(allocation, error, text):
    with pytest.raises(error, match=text):
        strategy_of(allocation)
