"""Administration: one class, and a group of methods for each subject.

Names are imported when they are first used, so that a command loads only what it runs.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mqclient.admin.admin import Admin
    from mqclient.admin.messages import MessageTrack
    from mqclient.admin.plans import OffsetChange, OffsetPlan, ShiftBy, ToOffset
    from mqclient.admin.queue_pages import QueuePage
    from mqclient.admin.resets import RollbackStats
    from mqclient.admin.search import Found, Place, Problem, Search
    from mqclient.admin.versions import version_name

__all__ = [
    "Admin",
    "Found",
    "MessageTrack",
    "OffsetChange",
    "OffsetPlan",
    "Place",
    "Problem",
    "QueuePage",
    "RollbackStats",
    "Search",
    "ShiftBy",
    "ToOffset",
    "version_name",
]

_HOME_OF = {
    "Admin": "admin",
    "Found": "search",
    "MessageTrack": "messages",
    "OffsetChange": "plans",
    "OffsetPlan": "plans",
    "Place": "search",
    "Problem": "search",
    "QueuePage": "queue_pages",
    "RollbackStats": "resets",
    "Search": "search",
    "ShiftBy": "plans",
    "ToOffset": "plans",
    "version_name": "versions",
}


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'mqclient.admin' has no attribute {name!r}")
    value = getattr(import_module(f"mqclient.admin.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
