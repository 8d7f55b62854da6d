"""A broker that has no slave runs nothing for replication except the thread that lets one in."""

from __future__ import annotations

from pathlib import Path

from tests.interop.our_servers import OurBroker, OurNamesrv
from tests.replicas import is_joined
from tests.waiting import until

DOOR = {"mq-ha-accept"}
"""It sleeps until something connects."""
OF_A_SLAVE = {"mq-ha-read", "mq-ha-send"}


def replication_threads(pid: int) -> set[str]:
    """The names of a process's threads that replication has."""
    names = set()
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            names.add((task / "comm").read_text().strip())
        except OSError:  # it has ended
            continue
    return {name for name in names if name.startswith("mq-ha")}


def test_a_master_works_for_slaves_while_it_has_one(tmp_path: Path) -> None:
    for name in ("namesrv", "master", "slave"):
        (tmp_path / name).mkdir()
    names = OurNamesrv(tmp_path / "namesrv")
    master = OurBroker(tmp_path / "master", names.address)
    pid = master.process.pid
    slave: OurBroker | None = None
    try:
        assert until(lambda: replication_threads(pid) == DOOR)
        of_slave = {"brokerRole": "SLAVE", "brokerId": 1}
        slave = OurBroker(tmp_path / "slave", names.address, settings=of_slave)
        assert until(lambda: is_joined(master.address))
        assert until(lambda: replication_threads(pid) == DOOR | OF_A_SLAVE)
        slave.stop()
        assert until(lambda: replication_threads(pid) == DOOR)
    finally:
        if slave is not None and not slave.process.has_ended:
            slave.stop()
        master.stop()
        names.stop()
