"""store -> lake: every record once, of several stores, with and without damage."""

import shutil
from collections import Counter

import pyarrow.dataset as ds
import pytest

import mqstore
from mqpipeline.errors import UsageError
from mqpipeline.jobs.recover import plan_recover, recover
from mqstore.errors import StoreDamaged
from tests.common.golden import expected, extract
from tests.pipeline.test_to_lake import Killed, killed_at, no_session

FILE = 65_536


@pytest.fixture(scope="module")
def golden(tmp_path_factory):
    return extract("store", tmp_path_factory.mktemp("golden"))


def offsets(lake):
    rows = ds.dataset(str(lake), format="parquet", partitioning="hive").to_table()
    return Counter(rows["commit_log_offset"].to_pylist())


def lines():
    return [line for line in expected("store") if "topic" in line]


def whole(golden):
    return Counter(message.commit_log_offset for message in mqstore.open(golden).records())


def test_every_record_of_a_java_broker(golden, plain, tmp_path):
    report = recover(str(tmp_path), [str(golden)], spark=plain)
    assert offsets(tmp_path) == whole(golden)
    (store,) = report.stores.values()
    assert store.messages == len(lines()) and report.rounds == 1
    topics = {line["topic"] for line in lines()}
    assert store.topics == len(topics)
    kept = ds.dataset(str(tmp_path), format="parquet", partitioning="hive").to_table()
    assert set(kept["topic"].to_pylist()) == topics
    assert recover(str(tmp_path), [str(golden)], spark=no_session).rounds == 0


@pytest.mark.parametrize(("step", "count"), [("staged", 2), ("journaled", 2), ("moved", 2)])
def test_a_killed_run_goes_on_after_its_last_round(golden, plain, tmp_path, step, count):
    copy = shutil.copytree(golden, tmp_path / "second")
    stores = [str(golden), str(copy)]
    job = {"spark": plain, "round_bytes": FILE}
    plan = plan_recover(str(tmp_path / "lake"), stores, round_bytes=FILE)
    assert len(plan) == 8 and [piece.first for piece in plan[:2]] == [0, FILE]
    with pytest.raises(Killed):
        recover(str(tmp_path / "lake"), stores, **job, on_step=killed_at(step, count))
    recover(str(tmp_path / "lake"), stores, **job)
    assert offsets(tmp_path / "lake") == whole(golden) + whole(golden)


def test_a_store_that_grows_is_read_on(plain, tmp_path):
    settings = mqstore.Settings(commit_log_file_bytes=1 << 16, min_free_bytes=0)
    with mqstore.Store(tmp_path / "store", settings, create=True) as store:
        for count in (10, 2000):
            for i in range(count):
                store.put("Live", b"row %d" % i)
            recover(str(tmp_path / "lake"), [str(tmp_path / "store")], spark=plain)
    found = offsets(tmp_path / "lake")
    assert found == whole(tmp_path / "store") and sum(found.values()) == 2010


def test_damage_is_an_error_or_is_counted(golden, plain, tmp_path):
    root = shutil.copytree(golden, tmp_path / "damaged")
    victim = [m for m in mqstore.open(root).records() if len(m.stored_body) > 10][20]
    path = root / "commitlog" / f"{victim.commit_log_offset // FILE * FILE:020}"
    log = bytearray(path.read_bytes())
    log[bytes(log).index(victim.stored_body, victim.commit_log_offset % FILE) + 5] ^= 1
    path.write_bytes(log)
    with pytest.raises(StoreDamaged, match=f"unreadable at {victim.commit_log_offset}"):
        recover(str(tmp_path / "lake"), [str(root)], spark=plain)
    job = {"spark": plain, "fail_on_data_loss": False, "round_bytes": FILE}
    report = recover(str(tmp_path / "lake"), [str(root)], **job)
    (store,) = report.stores.values()
    assert (store.damaged_places, store.damaged_bytes) == (1, victim.store_size)
    assert offsets(tmp_path / "lake") == whole(golden) - Counter([victim.commit_log_offset])


def test_a_topic_alone_and_a_folder_that_is_no_store(golden, plain, tmp_path):
    recover(str(tmp_path), [str(golden)], spark=plain, topic="TopicTest")
    wanted = [line for line in lines() if line["topic"] == "TopicTest"]
    assert sum(offsets(tmp_path).values()) == len(wanted)
    with pytest.raises(UsageError, match="has no folder commitlog"):
        recover(str(tmp_path), [str(tmp_path)], spark=no_session)
    with pytest.raises(UsageError, match="ran with topic = TopicTest"):
        recover(str(tmp_path), [str(golden)], spark=no_session)
