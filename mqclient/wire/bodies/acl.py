"""Body of the access-control configuration."""

from dataclasses import dataclass, field

from mqclient.wire.bodies.base import Body


@dataclass
class PlainAccessConfig(Body):
    """One account. secret_key is never logged; topic_perms, group_perms: "name=PUB|SUB"."""

    access_key: str
    secret_key: str | None = field(default=None, repr=False)
    white_remote_address: str | None = None
    admin: bool = False
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: list[str] | None = None
    group_perms: list[str] | None = None


@dataclass
class AclConfig(Body):
    """The answer to GET_BROKER_CLUSTER_ACL_CONFIG (54)."""

    global_white_addrs: list[str] = field(default_factory=list)
    plain_access_configs: list[PlainAccessConfig] = field(default_factory=list)
