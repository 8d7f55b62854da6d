"""Administration: one class, and a family of methods for each kind of thing."""

from mqclient.admin.admin import Admin
from mqclient.admin.messages import MessageTrack
from mqclient.admin.resets import RollbackStats
from mqclient.admin.versions import version_name

__all__ = ["Admin", "MessageTrack", "RollbackStats", "version_name"]
