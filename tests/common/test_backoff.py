"""Pauses between tries."""

from mqcommon.backoff import Backoff


def test_a_pause_doubles_up_to_the_longest_and_begins_again() -> None:
    backoff = Backoff(0.1, 0.5)
    pauses = []
    for _ in range(5):
        pauses.append(backoff.pause_s)
        backoff.grow()
    assert pauses == [0.1, 0.2, 0.4, 0.5, 0.5]
    backoff.reset()
    assert backoff.pause_s == 0.1
