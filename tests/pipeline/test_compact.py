"""compact: fewer files with the same rows in the same order, even after a kill at any step."""

from collections import Counter

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from mqpipeline.cli.main import main
from mqpipeline.errors import BusyError, UsageError
from mqpipeline.jobs.compact import compact, plan_compact
from mqpipeline.jobs.to_lake import to_lake
from mqpipeline.lake.storage import Lake
from mqpipeline.lake.transaction import opened
from tests.pipeline.test_to_lake import Killed, bodies_of, killed_at, no_session, send

WHOLE = Counter(f"m {i}" for i in range(24))
STEPS = [("planned", 1), ("staged", 1), ("journaled", 1), ("moved", 1), ("deleted", 1),
         ("deleted", 12), ("committed", 1)]  # fmt: skip


@pytest.fixture(scope="session")
def topic(mq):
    topic = mq.topic("Small", queues=2)
    send(mq, topic, 24)
    return topic


@pytest.fixture
def lake(mq, topic, plain, tmp_path):
    """A lake with 12 small files."""
    to_lake(str(tmp_path), [topic], namesrv=mq.namesrv, spark=plain, rows_max=2, by="day")
    assert len(list(tmp_path.rglob("*.parquet"))) == 12
    return tmp_path


def test_small_files_of_a_folder_become_one(lake, plain):
    (plan,) = plan_compact(str(lake))
    report = compact(str(lake), spark=plain)
    assert (report.folders, report.files_before, report.files_after, report.messages) == (
        1, 12, 1, 24
    )  # fmt: skip
    (file,) = lake.rglob("*.parquet")
    assert file.parent == lake / plan.folder and file.name.startswith("merged.")
    rows = pq.read_table(file, partitioning=None).select(["queue_id", "queue_offset"]).to_pylist()
    order = [(row["queue_id"], row["queue_offset"]) for row in rows]
    assert order == [(queue, offset) for queue in (0, 1) for offset in range(12)]
    assert bodies_of(lake) == WHOLE
    assert compact(str(lake), spark=no_session).files_before == 0


def test_files_of_one_queue_keep_their_name_and_large_ones_stay(lake, plain):
    sizes = sum(path.stat().st_size for path in lake.rglob("broker-a.0-*.parquet"))
    compact(str(lake), target_bytes=sizes, spark=plain)
    names = sorted(path.name for path in lake.rglob("*.parquet"))
    assert names[0] == "broker-a.0-0000000000-0000000011.parquet"
    assert bodies_of(lake) == WHOLE
    assert compact(str(lake), target_bytes=1, spark=no_session).files_before == 0


@pytest.mark.parametrize(("step", "count"), STEPS)
def test_a_killed_run_is_carried_on(lake, plain, step, count):
    with pytest.raises(Killed):
        compact(str(lake), spark=plain, on_step=killed_at(step, count))
    if step in ("journaled", "moved", "deleted"):
        with pytest.raises(UsageError, match="job compact was killed while it moved files"):
            plan_compact(str(lake))
    compact(str(lake), spark=plain)
    assert bodies_of(lake) == WHOLE
    assert len(list(lake.rglob("*.parquet"))) == 1
    assert not list(lake.rglob("_mqpipeline/staging/*"))


def test_a_column_that_some_files_lack_is_null_there(lake, plain):
    path = max(lake.rglob("*.parquet"))
    table = pq.ParquetFile(path).read()
    pq.write_table(table.append_column("value", [[1] * table.num_rows]), path)
    compact(str(lake), spark=plain)
    values = ds.dataset(str(lake), partitioning="hive").to_table()["value"].to_pylist()
    assert Counter(values) == {1: 2, None: 22}


def test_it_is_refused_while_a_job_works_and_the_other_way_round(mq, topic, lake, plain, capsys):
    with opened(Lake(str(lake)), "to-lake", "to-lake", {}):
        with pytest.raises(BusyError, match="a job works on lake"):
            compact(str(lake), spark=no_session)
        assert main(["compact", str(lake)]) == 1
        assert "start again after it has stopped" in capsys.readouterr().err
    with (
        opened(Lake(str(lake)), "compact", "compact", {}, alone=True),
        pytest.raises(BusyError, match="is being compacted"),
    ):
        to_lake(str(lake), [topic], namesrv=mq.namesrv, spark=plain, by="day")


def test_what_is_no_lake_is_refused_and_a_plan_is_shown(lake, tmp_path_factory, capsys):
    empty = tmp_path_factory.mktemp("empty")
    assert main(["compact", str(empty), "--dry-run"]) == 2
    assert "is it a lake?" in capsys.readouterr().err
    assert main(["compact", str(lake), "--dry-run", "--output", "csv"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "folder,files,bytes"
