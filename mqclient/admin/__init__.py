"""Administration: one class, and a group of methods for each subject."""

from mqclient.admin.admin import Admin
from mqclient.admin.messages import MessageTrack
from mqclient.admin.plans import OffsetChange, OffsetPlan, ShiftBy, ToOffset
from mqclient.admin.queue_pages import QueuePage
from mqclient.admin.resets import RollbackStats
from mqclient.admin.versions import version_name

__all__ = [
    "Admin",
    "MessageTrack",
    "OffsetChange",
    "OffsetPlan",
    "QueuePage",
    "RollbackStats",
    "ShiftBy",
    "ToOffset",
    "version_name",
]
