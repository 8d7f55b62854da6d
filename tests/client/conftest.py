"""What tests of the client share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mqserver.embedded.standalone import Standalone


@pytest.fixture(scope="module")
def mq() -> Iterator[Standalone]:
    """A NameServer and a broker in the test's process, for one module."""
    with Standalone() as both:
        yield both
