"""A name that goes away still works, and warns with its successor."""

import pytest

from mqclient.deprecation import deprecated


class Client:
    @deprecated("Client.send", "0.4")
    def put(self, number: int) -> int:
        """Put it."""
        return number + 1


def test_the_old_name_works_and_warns_where_it_is_called():
    words = r"^Client.put is deprecated and goes away in mqstack 0\.4; use Client\.send$"
    with pytest.warns(DeprecationWarning, match=words) as caught:
        assert Client().put(1) == 2
    assert caught[0].filename == __file__
    assert Client.put.__doc__ == "Put it."
