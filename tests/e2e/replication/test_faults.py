"""Cuts, stalls and kills between a SYNC_MASTER and its slave, under load. When the master's disk is
lost, the slave has every message that was acknowledged, once and in its order.

`MQSTACK_SOAK_FAULTS` is the number of cuts of the long run; it kills a quarter as often.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.replication.conftest import QUEUES
from tests.e2e.replication.load import Load
from tests.e2e.replication.pair import ROLES, Pair
from tests.e2e.replication.proxy import Way
from tests.replicas import assert_equal_logs
from tests.waiting import until

SHORT = 10
LONG = int(os.environ.get("MQSTACK_SOAK_FAULTS", "200"))
SLAVE_NOT_AVAILABLE, FLUSH_SLAVE_TIMEOUT = 11, 12

Fault = Callable[[Pair, Load], None]


def cut(pair: Pair, load: Load) -> None:
    pair.proxy.cut()
    load.await_more(8, SLAVE_NOT_AVAILABLE)


def flap(pair: Pair, load: Load) -> None:
    for _ in range(3):
        pair.proxy.reset()
        load.await_more(8)


def cut_one_way(way: Way) -> Fault:
    def fault(pair: Pair, load: Load) -> None:
        pair.proxy.hold(way)
        load.await_more(QUEUES, FLUSH_SLAVE_TIMEOUT)

    return fault


def slow(pair: Pair, load: Load) -> None:
    pair.proxy.slow()
    load.await_more(8)


def part_of_a_frame(pair: Pair, load: Load) -> None:
    """The rest of the frame comes late."""
    cut_parts(pair)
    load.await_more(QUEUES, FLUSH_SLAVE_TIMEOUT)


def close_within_a_frame(pair: Pair, _load: Load) -> None:
    """The rest of the frame never comes."""
    cut_parts(pair)
    pair.proxy.reset()


def cut_parts(pair: Pair) -> None:
    before = pair.proxy.parts
    pair.proxy.hold_within(Way.TO_SLAVE)
    assert until(lambda: pair.proxy.parts > before)


def reconnect_before_the_end(pair: Pair, load: Load) -> None:
    """The master has the slave's next connection before it hears the end of the last one."""
    pair.proxy.forget_slaves()
    load.await_more(8)


CUTS: list[Fault] = [
    cut,
    cut_one_way(Way.TO_SLAVE),
    close_within_a_frame,
    flap,
    reconnect_before_the_end,
    cut_one_way(Way.TO_MASTER),
    part_of_a_frame,
    slow,
]


def check_with_the_master_lost(pair: Pair, load: Load) -> None:
    assert_equal_logs(pair.master, pair.slave)
    pair.lose_the_master()
    load.check(pair.slave.address)


def test_the_check_notices_lost_messages(tmp_path: Path) -> None:
    pair = Pair(tmp_path, QUEUES, master_role="ASYNC_MASTER")
    try:
        pair.await_ready()
        with Load(pair.master.address, QUEUES) as load:
            load.await_more()
            pair.proxy.cut()
            load.await_more()
        pair.lose_the_master()
        with pytest.raises(AssertionError, match="are not there"):
            load.check(pair.slave.address)
    finally:
        pair.stop()


@pytest.mark.timeout(120 + 10 * LONG)
@pytest.mark.parametrize("count", [SHORT, pytest.param(LONG, marks=pytest.mark.soak)])
def test_no_cut_loses_what_was_acknowledged(pair: Pair, count: int) -> None:
    with Load(pair.master.address, QUEUES) as load:
        for fault in itertools.islice(itertools.cycle(CUTS), count):
            load.await_more()
            fault(pair, load)
            pair.proxy.heal()
        load.await_more()
    print(f"{count} cuts: {dict(load.answers)}")
    check_with_the_master_lost(pair, load)


@pytest.mark.timeout(120 + 10 * LONG)
@pytest.mark.parametrize("count", [SHORT, pytest.param(LONG // 4, marks=pytest.mark.soak)])
def test_no_kill_loses_what_was_acknowledged(pair: Pair, count: int) -> None:
    with Load(pair.master.address, QUEUES) as load:
        for role in itertools.islice(itertools.cycle(ROLES), count):
            load.await_more()
            pair.restart(role)
            load.await_more()
            pair.pause(role)
            if role == "slave":
                load.await_more(QUEUES, FLUSH_SLAVE_TIMEOUT)
            pair.resume(role)
        load.await_more()
    print(f"{count} kills: {dict(load.answers)}")
    check_with_the_master_lost(pair, load)
