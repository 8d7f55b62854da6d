"""Golden store directories, unpacked once."""

import pytest

from tests.format.golden import GOLDEN, extract


@pytest.fixture(scope="session")
def golden_store(tmp_path_factory):
    """Give the root of a golden store by name; shared, so read it only."""
    unpacked = {}

    def root(name):
        if name not in unpacked:
            if not (GOLDEN / name / "store.tar.gz").exists():
                pytest.skip(f"tests/golden/{name} is not there")
            unpacked[name] = extract(name, tmp_path_factory.mktemp("golden"))
        return unpacked[name]

    return root
