"""The bench beside other brokers' clients, as far as it goes without them."""

from pathlib import Path

import pytest

from benches.cases import peers as bench
from benches.lib import client_load, harness
from benches.lib.harness import SMOKE, BenchFailed
from benches.lib.measured import Backlog, Spans, lots
from benches.lib.one_load import run_load
from scripts import peers

LOADS = Path(client_load.__file__).parent / "peers"


@pytest.fixture
def no_peers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that has nothing of the peers, and a folder for results."""
    monkeypatch.setattr(harness, "ROOT", tmp_path)
    monkeypatch.setattr(harness, "RESULTS", tmp_path)
    monkeypatch.setattr(peers, "PACKAGES", tmp_path / "python")
    for name in peers.MISSING:
        monkeypatch.setitem(peers.MISSING, name, lambda: "its server is not there")


def report(*rows: dict[str, object]) -> str:
    made = bench.Beside("peers", SMOKE, "the method", ("case", "of"))
    made.rows.extend(rows)
    made.absent = ["not measured: pika: why"]
    return made.markdown()


@pytest.mark.usefixtures("no_peers")
def test_ours_runs_alone_and_each_peer_is_said_to_be_absent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.main(smoke=True, cases=["send_one"])
    said = capsys.readouterr().out
    for client in bench.CLIENTS:
        assert f"not measured: {client.name}: its server is not there\n" in said
    assert "| case | mqstack |\n" in said and "| one send at a time | " in said
    assert (tmp_path / "peers-smoke.json").exists()


def test_a_client_without_its_package_is_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "PACKAGES", tmp_path)
    monkeypatch.setitem(peers.MISSING, "Redis", lambda: None)
    redis = [client for client in bench.CLIENTS if client.name == "redis-py"]
    [line] = bench.absent(redis)
    assert line.startswith("not measured: redis-py: its Python package is not there: run `python")
    (tmp_path / "redis").mkdir()
    assert bench.absent(redis) == []


def test_what_is_not_installed_names_the_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(peers, "NATS_SERVER", tmp_path / "nats-server")
    monkeypatch.setattr(peers, "RABBITMQ_SERVER", tmp_path / "rabbitmq-server")
    said = {name: str(missing()) for name, missing in peers.MISSING.items()}
    assert "JDK 17" in said["Kafka"] and "python -m scripts.peers" in said["NATS"]
    assert "Debian: redis-server" in said["Redis"] and "rabbitmq-server" in said["RabbitMQ"]


def test_the_table_has_a_line_a_case_and_a_column_a_client() -> None:
    rate = {"per_s": 1234.5, "cpu_us": 5.67}
    spans = {"p50_us": 250.4, "p99_us": 900.0, "p999_us": 5000.0, "cpu_us": 301.2}
    lines = report(
        {"case": "latency", "of": "pika", **spans},
        {"case": "latency", "of": "mqstack", **spans},
        {"case": "lists", "of": "mqstack", **rate},
    ).splitlines()
    assert lines[0] == "| case | mqstack | pika |"
    assert lines[2] == "| backlog, lists of 500 | 1,234 (5.67) | - |"
    same = "250 / 900 / 5,000 (301)"
    assert lines[3] == f"| send to handler, plain function | {same} | {same} |"
    assert "not measured: pika: why" in lines


def test_each_row_is_a_case_of_ours_and_each_client_has_loads() -> None:
    assert bench.OUR_CASES.keys() == bench.ROWS.keys()
    assert set(bench.OUR_CASES.values()) <= client_load.CASES.keys()
    assert all(set(client.cases) <= bench.ROWS.keys() for client in bench.CLIENTS)
    assert all((LOADS / f"{client.module}.py").exists() for client in bench.CLIENTS)


def test_the_clients_have_bounds_and_come_with_no_extra() -> None:
    extras = (Path(peers.ROOT) / "pyproject.toml").read_text().partition("[dependency-groups]")[0]
    for requirement in peers.packages():
        name, at_least, bounds = requirement.partition(">=")
        assert at_least and ",<" in bounds
        assert f'"{name}>' not in extras


def test_a_slow_round_ends_by_its_time() -> None:
    assert [len(lot) for lot in lots(150, 64, seconds=60.0)] == [64, 64, 22]
    assert list(lots(150, 64, seconds=-1.0)) == []
    backlog = Backlog(1_000, seconds=-1.0)
    backlog.take(1_000 - 640)
    assert backlog.done.is_set() and backlog.figures["per_s"] > 0


def test_a_span_is_from_the_stamp_to_the_handler() -> None:
    spans = Spans()
    figures = spans.measure(spans.add, 10)
    assert len(spans.us) == 10
    assert 0 < figures["p50_us"] <= figures["p99_us"] <= figures["p999_us"]


def test_a_load_that_fails_fails_the_run() -> None:
    with pytest.raises(BenchFailed, match=r"client_load no_such_case .* exit code 1"):
        run_load("client_load", "no_such_case", "127.0.0.1:1", 1)
