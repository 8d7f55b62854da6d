"""How rows of the comparison with Java are judged and written, on made-up figures."""

import re
import struct
from itertools import product
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benches.cases.versus_java import results, row_of
from benches.cases.versus_java.figures import NAMES
from benches.cases.versus_java.rows import (
    LIMIT,
    Figures,
    Goal,
    Measured,
    Need,
    Session,
    of_limit,
    ratios,
)
from benches.cases.versus_java.table import ROWS
from benches.lib.route_load import Counter


def measured(ours: list[float], java4: list[float], java5: list[float]) -> Measured:
    brokers = {"mqstack": ours, "java-4.9.7": java4, "java-5.3.3": java5}
    rounds = {
        name: [{"messages_per_s": rate, "p999_us": 1e6 / rate, "added_us": None} for rate in rates]
        for name, rates in brokers.items()
    }
    return Measured(rounds)


THRICE = measured([300.0, 310.0, 10.0], [90.0, 100.0, 110.0], [50.0, 60.0, 70.0])


def test_a_rate_is_held_against_the_faster_java() -> None:
    verdict = Goal("messages_per_s", Need.TIMES_JAVA, 3.0).judge(THRICE)
    assert verdict is not None and verdict.met
    assert verdict.found == pytest.approx(3.0)
    assert ratios(THRICE, "messages_per_s") == pytest.approx({"java-4.9.7": 3, "java-5.3.3": 5})


def test_a_latency_is_held_against_the_quicker_java() -> None:
    verdict = Goal("p999_us", Need.OF_JAVA, 0.3).judge(THRICE)
    assert verdict is not None and not verdict.met
    assert verdict.found == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("need", "value", "met"),
    [
        (Need.AT_LEAST, 300, True),
        (Need.AT_LEAST, 301, False),
        (Need.AT_MOST, 300, True),
        (Need.AT_MOST, 299, False),
    ],
)
def test_a_limit_is_held_against_our_median(need: Need, value: float, met: bool) -> None:
    verdict = Goal("messages_per_s", need, value).judge(THRICE)
    assert verdict is not None and verdict.met is met


def test_what_was_not_measured_is_not_judged() -> None:
    assert Goal("added_us", Need.AT_MOST, 60).judge(THRICE) is None
    assert Goal("messages_per_s", Need.TIMES_JAVA, 1).judge(Measured({"mqstack": []})) is None


def test_rows_have_names_of_their_own_and_known_figures() -> None:
    assert len({row.name for row in ROWS}) == len({row.title for row in ROWS}) == len(ROWS)
    assert all(row.plot in NAMES and row.goals for row in ROWS)
    assert {goal.figure for row in ROWS for goal in row.goals} <= NAMES.keys()
    with pytest.raises(ValueError, match="java-async-64"):
        row_of("nonsense")


def test_results_are_kept_and_written(tmp_path: Path) -> None:
    row = row_of("java-async-64")
    results.keep(row, Session(tmp_path, 2.0, 1.0, 3), THRICE, tmp_path)
    text = results.write(ROWS, tmp_path).read_text()
    assert "| Java client, 64 threads | messages/s ≥ 1.8 x Java's | 3 x | yes |  |" in text
    assert "| **mqstack** | 300 (10..310) |" in text
    assert "3 x java-4.9.7, 5 x java-5.3.3" in text
    assert re.search(r"Not measured: .*Memory of the broker", text)


@pytest.mark.parametrize(
    ("name", "length"),
    [
        ("java-async-64", "Rounds: 3 of 2 s;"),
        ("native-async-64-rocketmq", "Rounds: 3 of 10 s;"),
        ("start", "Rounds: 3;"),
    ],
)
def test_a_rounds_length_is_told(tmp_path: Path, name: str, length: str) -> None:
    results.keep(row_of(name), Session(tmp_path, 2.0, 1.0, 3), THRICE, tmp_path)
    assert length in results.write(ROWS, tmp_path).read_text()


def test_the_limit_is_no_java_and_is_judged_beside_ours(tmp_path: Path) -> None:
    limit: list[Figures] = [{"messages_per_s": 400.0}]
    beside = Measured({**THRICE.rounds, LIMIT: limit})
    assert ratios(beside, "messages_per_s") == ratios(THRICE, "messages_per_s")
    assert of_limit(beside, "messages_per_s") == pytest.approx(0.75)
    assert of_limit(THRICE, "messages_per_s") is None
    results.keep(row_of("java-async-64"), Session(tmp_path, 2.0, 1.0, 3), beside, tmp_path)
    text = results.write(ROWS, tmp_path).read_text()
    assert "messages/s ≥ 1.8 x Java's | 3 x | yes | 4 x |" in text
    assert "That is 75% of the limit in the same run." in text


def test_a_plot_is_a_picture_with_every_broker_and_its_spread(tmp_path: Path) -> None:
    row = row_of("java-async-64")
    results.keep(row, Session(tmp_path, 2.0, 1.0, 3), THRICE, tmp_path)
    results.write(ROWS, tmp_path)
    path = tmp_path / "plots" / "java-async-64.svg"
    root = ElementTree.parse(path).getroot()
    kinds = [element.tag.rpartition("}")[2] for element in root.iter()]
    assert "script" not in kinds
    text = path.read_text()
    assert all(broker in text for broker in THRICE.rounds)
    assert text.count('class="ci"') == len(THRICE.rounds)


@pytest.mark.parametrize(("size", "cut"), [*product((1, 5, 300), (1, 3, 4, 7, 1000))])
def test_frames_are_counted_however_they_are_cut(size: int, cut: int) -> None:
    stream = (struct.pack(">i", size) + bytes(size)) * 20
    counter = Counter()
    pieces = [stream[at : at + cut] for at in range(0, len(stream), cut)]
    assert sum(counter.count(piece) for piece in pieces) == 20
    with pytest.raises(ConnectionError):
        counter.count(b"")
