"""The form of `-f`."""

from __future__ import annotations

import pytest

from mqclient.cli.message_format import compile_format
from mqcommon.message import ReceivedMessage, decode_messages
from tests.client.cluster import record


@pytest.fixture(scope="module")
def message() -> ReceivedMessage:
    stored = record(3, 7, "T", b"a\xffb", {"TAGS": "TagA", "KEYS": "k1 k2", "UNIQ_KEY": "u"}, 2)
    (found,) = decode_messages(stored, "broker-a")
    return found


@pytest.mark.parametrize(
    ("form", "written"),
    [
        ("%t %p %o %k %s\\n", b"T 3 7 k1 k2 a\xffb\n"),
        ("%S|%K|%g|%i|%b|%r", b"3|5|TagA|u|broker-a|2"),
        ("%h", b"TAGS=TagA,KEYS=k1 k2,UNIQ_KEY=u"),
        ("100%%\\t\\x00\\\\", b"100%\t\0\\"),
        ("", b""),
    ],
)
def test_forms(message: ReceivedMessage, form: str, written: bytes) -> None:
    assert compile_format(form)(message) == written


def test_a_message_without_a_key(message: ReceivedMessage) -> None:
    (bare,) = decode_messages(record(0, 0, "T", b"x", {}), "b")
    assert compile_format("[%k] [%g] %K")(bare) == b"[] [] 0"


@pytest.mark.parametrize("form", ["%", "%z", "\\q", "\\x1", "text %"])
def test_what_means_nothing_is_refused(form: str) -> None:
    with pytest.raises(ValueError, match="means nothing in a format; give %t topic"):
        compile_format(form)
