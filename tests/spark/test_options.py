"""Options of format("rocketmq"): what each text means, and which text is refused."""

import re
from pathlib import Path

import pytest

from mqcommon.names import TOOLS_GROUP
from mqpipeline.spark.topics.options import DECLARED, Options
from mqpipeline.spark.topics.positions import GroupStart

DOCS = Path(__file__).parent.parent.parent / "docs" / "spark.md"
USE_MARKS = {
    (): "",
    ("batch", "stream"): "read",
    ("batch",): "batch",
    ("stream",): "stream",
    ("write",): "write",
}


def read(**given):
    return Options.parse({"topic": "T", **given}, "batch")


def test_the_documentation_shows_every_option_as_it_is_declared():
    def cell(text):
        return text.replace("|", "\\|")

    rows = [
        f"| {', '.join(f'`{name}`' for name in option.names)} | {cell(option.meaning)} "
        f"| {option.shown} | {USE_MARKS[option.uses]} |"
        for option in DECLARED
    ]
    shown = DOCS.read_text().splitlines()
    start = shown.index("| option | meaning | default | only for |")
    assert shown[start + 2 : start + 2 + len(rows)] == rows
    assert not shown[start + 2 + len(rows)].startswith("|")


def test_options_have_rocketmqs_defaults(monkeypatch):
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    plain = Options.parse({"topic": "A, B"})
    assert (plain.namesrv, plain.topics) == (("127.0.0.1:9876",), ("A", "B"))
    assert (plain.tags, plain.queues, plain.starting) == (None, None, None)
    assert (plain.group, plain.partitions, plain.retry_timeout) == (TOOLS_GROUP, 8, 60)
    monkeypatch.setenv("NAMESRV_ADDR", "ns:1")
    full = Options.parse(
        {
            "topic": "A",
            "tags": "x || y",
            "queues": "0,3",
            "startingTimestamp": "2026-11-21T07:30:00Z",
            "endingOffsets": '{"b|A|0": 5}',
            "failOnDataLoss": "false",
            "maxRowsPerTrigger": "10",
            "addressMap": "172.17.0.2:10911=localhost:1, b:2=c:3",
        }
    )
    assert full.namesrv == ("ns:1",)
    assert (full.tags, full.queues) == ({"x", "y"}, {0, 3})
    assert (full.starting, full.ending) == (1795246200000, {"b|A|0": 5})
    assert (full.fail_on_data_loss, full.max_rows_per_trigger) == (False, 10)
    assert full.address_map == {"172.17.0.2:10911": "localhost:1", "b:2": "c:3"}


def test_each_alias_is_its_option():
    of_stream = [
        Options.parse({"topic": "T", name: "7"}, "stream")
        for name in ("maxRowsPerTrigger", "maxOffsetsPerTrigger")
    ]
    assert of_stream[0] == of_stream[1] and of_stream[0].max_rows_per_trigger == 7
    both = {"maxRowsPerTrigger": "7", "maxOffsetsPerTrigger": "8"}
    with pytest.raises(ValueError, match="maxRowsPerTrigger or maxOffsetsPerTrigger, not both"):
        Options.parse({"topic": "T", **both}, "stream")


@pytest.mark.parametrize(("unknown", "near"), [("nameserver", "namesrv"), ("tag", "tags")])
def test_an_unknown_option_names_the_nearest(unknown, near):
    with pytest.raises(ValueError, match=f"no option '{unknown}'; did you mean {near}"):
        Options.parse({"topic": "T", unknown: "x:1"})


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("Earliest", "earliest"),
        ("latest", "latest"),
        ('{"b|T|0": 5}', {"b|T|0": 5}),
        ('{"T": {"b": {"0": 5, "1": 6}}, "c|T|2": 7}', {"b|T|0": 5, "b|T|1": 6, "c|T|2": 7}),
        ("{}", {}),
        ("group:old-job", GroupStart("old-job")),
    ],
)
def test_starting_offsets_have_five_forms(text, position):
    assert read(startingOffsets=text).starting == position


def test_old_topic_names_can_be_read_and_not_written():
    old = "orders.of 2016"
    for use in ("batch", "stream"):
        assert Options.parse({"namesrv": "ns:9876", "topic": old}, use).topics == (old,)
    with pytest.raises(ValueError, match="2016"):
        Options.parse({"namesrv": "ns:9876", "topic": old}, "write")


def test_a_time_may_be_zero():
    assert read(endingTimestamp="0").ending == 0


def test_sizes_have_units():
    sizes = {"100": 100, "1k": 1024, "64m": 64 << 20, "2GB": 2 << 30}
    for text, size in sizes.items():
        options = Options.parse({"topic": "T", "maxBytesPerTrigger": text}, "stream")
        assert options.max_bytes_per_trigger == size


def test_more_tasks_raise_the_most():
    assert (read(minPartitions="20").partitions_min, read(minPartitions="20").partitions) == (
        20,
        20,
    )
    assert (read(minPartitions="2").partitions_min, read(minPartitions="2").partitions) == (2, 8)
    with pytest.raises(ValueError, match="minPartitions = 3 is more than the most, partitions = 2"):
        read(minPartitions="3", partitions="2")


@pytest.mark.parametrize(
    "option",
    [
        {"queues": "a"},
        {"startingOffsets": "yesterday"},
        {"startingOffsets": "[1]"},
        {"startingOffsets": '{"b|T|0": 1.5}'},
        {"startingOffsets": '{"b|T|0": -1}'},
        {"startingOffsets": '{"T": {"b": [1]}}'},
        {"startingOffsets": "group:"},
        {"endingOffsets": "group:g"},
        {"startingTimestamp": "noon"},
        {"startingTimestamp": "2026-03-29T02:30:00"},
        {"startingOffsets": "latest", "startingTimestamp": "5"},
        {"failOnDataLoss": "maybe"},
        {"partitions": "0"},
        {"minPartitions": "few"},
        {"maxRowsPerPartition": "-1"},
        {"maxRowsPerTrigger": "many"},
        {"maxBytesPerTrigger": "64x"},
        {"timeout": "-1"},
        {"retryTimeout": "soon"},
        {"addressMap": "somewhere"},
        {"namesrv": "host:port"},
        {"namesrv": "host:port"},
        {"topicPattern": "a("},
        {"filter": "a >"},
        {"group": "no group"},
        {"commitGroup": "true"},
        {"pushdown": "yes"},
    ],
)
def test_a_bad_option_is_named(option):
    with pytest.raises(ValueError, match=next(iter(option))):
        Options.parse(option)


def test_the_error_of_a_filter_says_what_is_wrong_with_it():
    with pytest.raises(ValueError, match="option filter = 'a > > 5': "):
        read(filter="a > > 5")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"topics": "A", "topicPattern": "B"}, "give option topics or topicPattern, not both"),
        ({"topic": "A", "topics": "B"}, "give option topic or topics, not both"),
        ({"topic": "A", "tags": "B", "filter": "a = 1"}, "give option tags or filter, not both"),
        ({"topic": "A", "tags": "B", "filter": "a = 1"}, "give option tags or filter, not both"),
        ({}, "say which topic to read"),
        ({"topics": " , "}, "say which topic to read"),
        ({"topic": "A", "startOffsets": "1"}, "no option 'startOffsets'; did you mean startingOff"),
    ],
)
def test_options_that_do_not_go_together_are_refused(given, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        Options.parse(given, "batch")


@pytest.mark.parametrize(
    ("use", "given", "words"),
    [
        (
            "batch",
            {"maxRowsPerTrigger": "1"},
            "maxRowsPerTrigger is for streaming reads, not for b",
        ),
        ("batch", {"commitgroup": "true"}, "commitGroup is for streaming reads, not for batch"),
        ("stream", {"endingOffsets": "latest"}, "endingOffsets is for batch reads, not for stream"),
        ("stream", {"pushdown": "true"}, "pushdown is for batch reads, not for streaming reads"),
        ("write", {"tags": "A"}, "tags is for batch reads and streaming reads, not for writes"),
        ("batch", {"producerGroup": "g"}, "producerGroup is for writes, not for batch reads"),
    ],
)
def test_an_option_of_another_use_is_refused(use, given, words):
    with pytest.raises(ValueError, match=words):
        Options.parse({"topic": "T", **given}, use)


def test_a_write_goes_to_one_topic():
    assert Options.parse({"topic": "T"}, "write").topic == "T"
    assert Options.parse({}, "write").topic is None
    with pytest.raises(ValueError, match="a write goes to one topic"):
        Options.parse({"topic": "A,B"}, "write")
