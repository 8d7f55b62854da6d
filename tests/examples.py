"""How many examples a property test tries: a few in `make check`, many in `make soak`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, settings

TIMES = {"soak": 50.0, "check": 0.1}
"""By Hypothesis profile: factor for the number of examples that a test requests."""
LEAST = 3


def examples(count: int, **options: Any) -> Callable[[Any], Any]:
    """Settings of a test with this many examples. options: more of Hypothesis' settings."""
    times = TIMES.get(settings.get_current_profile_name(), 1.0)
    return settings(
        max_examples=max(LEAST, round(count * times)),
        deadline=None,
        suppress_health_check=list(HealthCheck),
        **options,
    )
