"""The consumer groups of a broker and their permissions (`SubscriptionGroupManager`)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping

from msgspec.structs import replace

from mqcommon import names
from mqcommon.wire.bodies.common import DataVersion
from mqcommon.wire.bodies.groups import GroupConfig, SubscriptionGroupWrapper
from mqcommon.wire.codes import ResponseCode
from mqserver.broker.state.bounds import Bounds
from mqserver.broker.state.table_text import TableText
from mqserver.broker.state.topics import OURSELVES
from mqserver.broker.state.unasked import Unasked
from mqserver.runtime.data_plane import Tables
from mqserver.runtime.processor_api import Refused

log = logging.getLogger("mqserver.broker")

FILE = "subscriptionGroup.json"
FOLDER_BYTES_MAX = 255
"""Longest name of a folder; each topic has a folder."""


def why_too_long(group: str) -> str | None:
    """Why a new group cannot have this name: its retry topic would be too long for a folder.

    None if the name is short enough.
    """
    size = len(names.retry_topic(group).encode())
    if size <= FOLDER_BYTES_MAX:
        return None
    return (
        f"the group has {len(group)} characters, and its retry topic would have {size} bytes, "
        f"which is too long for a folder: use at most "
        f"{FOLDER_BYTES_MAX - len(names.RETRY_PREFIX)} characters"
    )


def no_new_group(group: str, reason: str) -> Refused:
    """The refusal for a group that does not exist and may not be created."""
    remark = f"subscription group not exist, {group}; {reason}"
    return Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)


class Groups:
    """The table of groups; every change is published and marked for saving.

    auto_create: whether a client's first request with an unknown group creates the group. light:
    the group of a light queue always exists and is in no list (`enableLmq`,
    `LmqSubscriptionGroupManager`). by: the client that asks for a change, "ip:port", for the log.
    bounds: limits on the groups that clients may create. unasked: records the created ones.
    """

    def __init__(
        self,
        tables: Tables,
        now_ms: Callable[[], int],
        save: Callable[[str], None],
        auto_create: Callable[[], bool],
        light: bool = False,
        bounds: Bounds | None = None,
        unasked: Unasked | None = None,
    ) -> None:
        self._lock = threading.Lock()
        self._bounds = bounds or Bounds()
        self._unasked = unasked or Unasked(self._bounds, now_ms, save)
        self._rows = {name: GroupConfig(name) for name in names.SYSTEM_GROUPS}
        self._text = TableText("subscriptionGroupTable")
        self._tables = tables
        self._now_ms = now_ms
        self._save = save
        self._auto_create = auto_create
        self._light = light
        self.version = DataVersion(0, now_ms())

    def load(self, wrapper: SubscriptionGroupWrapper | None) -> None:
        """Add the groups of the file to the system's groups, and publish all."""
        with self._lock:
            if wrapper is not None:
                self._rows.update(wrapper.subscription_group_table)
                self.version = wrapper.data_version
            self._publish(self._rows, replace_all=True)

    def copy(self, of_master: SubscriptionGroupWrapper) -> None:
        """Take over a master's groups with their version, unless this table has that version.

        Groups that the master lacks go (`SlaveSynchronize.syncSubscriptionGroupConfig`).
        """
        with self._lock:
            if of_master.data_version == self.version:
                return
            system = {name: GroupConfig(name) for name in names.SYSTEM_GROUPS}
            self._rows = system | of_master.subscription_group_table
            self.version = of_master.data_version
            self._publish(self._rows, replace_all=True)
            self._save(FILE)
        self._tables.forget_heartbeats()  # they create the groups of running clients

    def render(self) -> bytes:
        """The text of the file in RocketMQ's form."""
        wrapper = self.all()
        return self._text.render(wrapper.subscription_group_table, wrapper.data_version)

    def get(self, group: str) -> GroupConfig | None:
        """A group, None if it does not exist."""
        if self._light and group.startswith(names.LIGHT_PREFIX):
            return GroupConfig(group)
        return self._rows.get(group)

    def find(self, group: str, by: str = OURSELVES) -> GroupConfig | None:
        """A group, created with defaults if that is allowed; None if it is not.

        Raises Refused if clients have created too many groups, or if the name is too long for a
        new group.
        """
        found = self.get(group)
        if found is not None:
            return found
        if not self._auto_create() and not group.startswith(names.SYSTEM_GROUP_PREFIX):
            return None
        if not names.is_legal_group(group):
            return None
        if reason := why_too_long(group):
            raise no_new_group(group, reason)
        with self._lock:
            if group not in self._rows:
                self._check_room(group, by)
                self._change(GroupConfig(group))
                self._unasked.note("groups", group, by)
                log.info("group %r was created for %s", group, by)
                self._save(FILE)
            return self._rows[group]

    def _check_room(self, group: str, by: str) -> None:
        """Check the limit, for which all groups count, and the share of the client's address."""
        limit = self._bounds.limits.auto_create_group_max
        why = self._unasked.share_is_full("groups", by, limit)
        if len(self._rows) < limit and why is None:
            return
        why = why or f"the broker has {len(self._rows)} of autoCreateGroupMax={limit}"
        remark = (
            f"subscription group not exist, {group}; clients cannot create more groups, as {why}"
        )
        code = ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        raise self._bounds.refused(code, "autoCreateGroupMax", remark)

    def put(self, config: GroupConfig, by: str = OURSELVES) -> None:
        """Create or replace a group (code 200); the caller saves."""
        if self._light and config.group_name.startswith(names.LIGHT_PREFIX):
            return
        with self._lock:
            what = "changed" if config.group_name in self._rows else "created"
            self._change(config)
            self._unasked.forget("groups", config.group_name)
        log.info("group %r was %s by %s: %s", config.group_name, what, by, config)
        self._tables.forget_heartbeats()

    def all(self) -> SubscriptionGroupWrapper:
        """All groups, with the version of the table."""
        with self._lock:
            return SubscriptionGroupWrapper(dict(self._rows), replace(self.version))

    def stop_consuming(self, group: str) -> bool:
        """Clear `consumeEnable` of a group, until an administrator sets it; as in RocketMQ, this is
        not saved. Returns False if it was clear, or the group does not exist."""
        with self._lock:
            config = self._rows.get(group)
            if config is None or not config.consume_enable:
                return False
            self._change(replace(config, consume_enable=False))
            return True

    def remove(self, group: str, by: str = OURSELVES) -> None:
        """Delete a group (code 207); the caller saves."""
        with self._lock:
            self._unasked.forget("groups", group)
            if self._rows.pop(group, None) is not None:
                log.info("group %r was deleted by %s", group, by)
                self.version = DataVersion(self.version.counter + 1, self._now_ms())
                self._tables.publish("groups", {group: None})
                self._tables.forget_heartbeats()

    def _change(self, config: GroupConfig) -> None:
        self._rows[config.group_name] = config
        self.version = DataVersion(self.version.counter + 1, self._now_ms())
        self._publish({config.group_name: config})

    def _publish(self, rows: Mapping[str, GroupConfig], replace_all: bool = False) -> None:
        published = {name: _row(config) for name, config in rows.items()}
        self._tables.publish("groups", published, replace=replace_all)


def _row(config: GroupConfig) -> tuple[bool, bool, int, int, int, int]:
    return (
        config.consume_enable,
        config.consume_broadcast_enable,
        config.retry_max_times,
        config.retry_queue_nums,
        config.broker_id,
        config.which_broker_when_consume_slowly,
    )
