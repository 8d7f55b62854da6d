"""Body of the access-control configuration."""

from typing import Any

from msgspec import field

from mqcommon.wire.bodies.base import Body


class PlainAccessConfig(Body):
    """One account. secret_key is never logged; topic_perms, group_perms: "name=PUB|SUB"."""

    access_key: str
    secret_key: str | None = None
    white_remote_address: str | None = None
    admin: bool = False
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: list[str] | None = None
    group_perms: list[str] | None = None

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        shown = (name for name in self.__struct_fields__ if name != "secret_key")
        return [(name, getattr(self, name)) for name in shown]

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.__rich_repr__())
        return f"{type(self).__name__}({shown})"


class AclConfig(Body):
    """The answer to GET_BROKER_CLUSTER_ACL_CONFIG (54)."""

    global_white_addrs: list[str] = field(default_factory=list)
    plain_access_configs: list[PlainAccessConfig] = field(default_factory=list)
