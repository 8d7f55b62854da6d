"""Whatever happens to the files of a store, the tools answer: with rows, or with a sentence."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given
from hypothesis import strategies as st

import mqstore
from mqstore.cli import main
from tests.examples import examples

STORES = ["store", "store-crashed", "store-ext", "store-lmq"]
BEYOND_REPAIR = {"state", "offset"}
"""A table of topics or offsets that is lost, its copy too, cannot be made from the log."""
Change = tuple[str, float, float, bytes]

change = st.tuples(
    st.sampled_from(["overwrite", "cut", "grow", "remove", "stray"]),
    st.floats(0, 1, exclude_max=True),
    st.floats(0, 1, exclude_max=True),
    st.one_of(st.binary(min_size=1, max_size=64), st.just(bytes(4096)), st.just(b"\xff" * 4096)),
)


def apply(root: Path, how: str, which: float, where: float, piece: bytes) -> None:
    """Change one file of a store."""
    files = sorted(path for path in root.rglob("*") if path.is_file())
    path = files[int(which * len(files))]
    content = bytearray(path.read_bytes())
    at = int(where * len(content))
    if how == "overwrite":
        content[at : at + len(piece)] = piece[: len(content) - at]
    elif how == "cut":
        del content[at:]
    elif how == "grow":
        content += piece
    elif how == "remove":
        path.unlink()
        return
    else:
        path = path.with_name("stray")
    path.write_bytes(content)


def use_the_reader(root: Path) -> None:
    """Every way to read; what cannot be read is an error of the documented kinds."""
    reader = mqstore.open(root)
    ways: list[Callable[[], object]] = [
        lambda: [m.properties for m in reader.records(check_crc=True)],
        lambda: [list(reader.queue(q.topic, q.queue_id)) for q in reader.queues()],
        lambda: [
            v.units.tolist()
            for q in reader.queues()
            for v in reader.queue_views(q.topic, q.queue_id)
        ],
        lambda: [v.entries.tolist() for v in reader.index_views()],
        lambda: reader.find("TopicTest", "key"),
        lambda: reader.find_id("0" * 32),
        reader.committed,
        reader.stat,
        lambda: [b.num_rows for b in reader.batches(["topic", "queue_offset"])],
    ]
    for way in ways:
        with contextlib.suppress(mqstore.StoreError, OSError):
            way()


@examples(15, phases=(Phase.explicit, Phase.reuse, Phase.generate))  # to shrink takes minutes
@given(name=st.sampled_from(STORES), changes=st.lists(change, min_size=1, max_size=4))
def test_commands_answer_for_any_damage(
    golden_store: Any,
    capsys: pytest.CaptureFixture[str],
    name: str,
    changes: list[Change],
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        here = Path(directory)
        root = shutil.copytree(golden_store(name), here / "store")
        for one in changes:
            apply(root, *one)
        for words in (
            ["ls"],
            ["stat"],
            ["dump", "--body", "hex"],
            ["verify"],
            ["export", "--to", str(here / "out.csv")],
            ["repair", "--to", str(here / "repaired")],
        ):
            code = main([words[0], str(root), *words[1:]])
            said = capsys.readouterr()
            assert code in (0, 1, 5), (words, said)
            assert (code == 0) or said.err or said.out
            if words[0] == "repair" and code == 0:
                left = mqstore.open(here / "repaired").verify().findings
                assert {finding.kind for finding in left} <= BEYOND_REPAIR, left
        if (root / "commitlog").is_dir():
            try:
                use_the_reader(root)
            except mqstore.StoreError as error:
                assert str(root) in str(error)
