"""The properties of a message on its way into the store."""

from __future__ import annotations

from mqserver.broker.message_text import Stored, store_form

WAIT = "WAIT\x01false\x02TAGS\x01a"


def test_wait_is_taken_out_of_what_is_stored_at_once() -> None:
    assert store_form(WAIT, "C") == Stored(b"TAGS\x01a\x02CLUSTER\x01C", False, 0, False)
    zero = store_form(f"{WAIT}\x02DELAY\x010", "C")
    assert zero.text == b"TAGS\x01a\x02DELAY\x010\x02CLUSTER\x01C"


def test_wait_stays_in_a_batch_and_in_a_delayed_message() -> None:
    batch = store_form(WAIT, "C", keep_wait=True)
    assert batch.text == b"TAGS\x01a\x02WAIT\x01false\x02CLUSTER\x01C"
    delayed = store_form(f"{WAIT}\x02DELAY\x013", "C")
    text = b"TAGS\x01a\x02DELAY\x013\x02WAIT\x01false\x02CLUSTER\x01C"
    assert delayed == Stored(text, False, 3, False)
