"""RocketMQ's names, as its own validators judge them."""

import pytest

from mqcommon import names


@pytest.mark.parametrize(
    ("topic", "group"),
    [
        ("%RETRY%g", "g"),
        ("%DLQ%g", "g"),
        ("%RETRY%%DLQ%g", "%DLQ%g"),
        ("%LMQ%g", None),
        ("g", None),
    ],
)
def test_the_group_whose_retries_or_dead_letters_a_topic_holds(topic, group):
    assert names.group_of(topic) == group
    assert names.is_of_a_group(topic) == (group is not None)


def test_the_groups_of_retry_topics_come_in_their_order():
    topics = ["b", "%RETRY%z", "%DLQ%y", "%RETRY%a"]
    assert names.retry_groups(topics) == ["z", "a"]


@pytest.mark.parametrize(
    ("text", "code"),
    [("", 0), ("TagA", 2598919), ("polygenelubricants", -(1 << 31)), ("\ud800", 0xD800)],
)
def test_hash_codes_are_javas(text, code):
    assert names.java_hash(text) == code
    assert names.tag_hash(text) == code


def test_a_message_without_a_tag_has_code_0():
    assert names.tag_hash(None) == 0


@pytest.mark.parametrize(
    ("expression", "tags"),
    [
        ("*", []),
        ("A", ["A"]),
        (" A||B |||| C ", ["A", "B", "C"]),
        ("", []),
        ("||", []),
        (" * ", ["*"]),
    ],
)
def test_tags_of_an_expression(expression, tags):
    assert names.tags_of(expression) == tags
