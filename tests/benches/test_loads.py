"""Small runs of the loads that only the benches against Java have, against our broker."""

import subprocess
from collections.abc import Iterator

import pytest

from benches.cases.versus_java import loads
from benches.cases.versus_java.figures import NAMES
from benches.cases.versus_java.loads import Connections, Latency, Oneway
from benches.lib.harness import environment
from benches.lib.loads import Loads, measure
from benches.lib.servers import Cluster, Ours

SECONDS = 0.2


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ours]:
    with Ours(tmp_path_factory.mktemp("loads") / "ours", {}) as cluster:
        yield cluster


def figures_of(load: Loads, cluster: Cluster) -> dict[str, float]:
    found = measure(load, cluster, SECONDS)
    assert found.keys() <= NAMES.keys()
    return found


def test_a_message_has_its_time_to_the_reader_at_the_rate(ours: Ours) -> None:
    found = figures_of(Latency(500.0), ours)
    assert found["messages_per_s"] == pytest.approx(500, rel=0.1)
    assert 0 < found["p50_us"] <= found["p99_us"] <= found["p9999_us"]
    assert found["failed"] == 0


def test_all_connections_are_open_and_heard(ours: Ours) -> None:
    found = figures_of(Connections(50), ours)
    assert found["connections_per_s"] > 0 and found["failed"] == 0
    assert 0 < found["p50_us"] <= found["p99_us"] and found["heartbeat_p99_us"] > 0
    assert "messages_per_s" not in found


def test_oneway_counts_what_is_stored(ours: Ours) -> None:
    found = figures_of(Oneway(), ours)
    assert 0 < found["messages_per_s"] <= found["sent_per_s"], "stored before it was sent?"
    assert 0 <= found["lost_percent"] < 100 and found["p50_us"] is None  # a busy broker drops some


def test_oneway_that_was_dropped_is_not_counted(
    ours: Ours, monkeypatch: pytest.MonkeyPatch
) -> None:
    totals = {"sent": 1_000, "stored": 250}
    report = {"totals": totals, "seconds": 0.5, "stored_seconds": 2.0, "problems": []}
    monkeypatch.setattr(loads, "run_produce", lambda *_, **__: report)
    found = figures_of(Oneway(), ours)
    assert (found["messages_per_s"], found["sent_per_s"]) == (125, 2_000)
    assert found["lost_percent"] == 75
    del totals["stored"]
    with pytest.raises(RuntimeError):
        Oneway().run(ours, SECONDS)


def test_a_kernel_is_told_by_its_number() -> None:
    kernel = str(environment()["kernel"])
    release = subprocess.check_output(["uname", "-r"], text=True)
    assert release.startswith(kernel) and kernel.replace(".", "").isdigit()
