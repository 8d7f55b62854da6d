"""CPU of others is seen, our own is not."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from benches.cases.versus_java.bystanders import Bystanders, taken_seconds
from benches.lib.harness import ProcessCost

SPIN = "while True: pass"
SPUN_SECONDS = 0.3


@pytest.fixture
def spinner() -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", SPIN]) as child:
        yield child.pid
        child.kill()


def spin(pid: int) -> None:
    cost = ProcessCost(pid)
    until = cost.cpu_seconds() + SPUN_SECONDS
    while cost.cpu_seconds() < until:
        os.sched_yield()


def test_a_stranger_is_seen_and_our_own_are_not(spinner: int) -> None:
    as_stranger, as_ours = Bystanders([]), Bystanders([spinner])
    spin(spinner)
    assert as_stranger.share() > 0.05
    assert as_stranger.share() > as_ours.share()


def test_what_the_host_keeps_for_itself_is_others() -> None:
    ticks = os.sysconf("SC_CLK_TCK")
    stat = f"cpu  {ticks} {2 * ticks} {4 * ticks} 9999 9999 9999 9999 {8 * ticks} 0 0\ncpu0 1 1"
    assert taken_seconds(stat) == 15
