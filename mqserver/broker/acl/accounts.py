"""One account of an access file: how it is read, checked and published to the data plane.

The rules come from RocketMQ 4.9's `PlainPermissionManager` and `Permission`. Secrets never
appear in `repr`, errors or logs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mqcommon.names import RETRY_PREFIX
from mqserver.broker.acl.addresses import Pattern, patterns
from mqserver.broker.acl.errors import AclError

KEY_LENGTH_MIN = 7
"""Fewest characters of an access key and of a secret key."""
TEXT_LENGTH_MAX = 64 << 10
"""Most characters of a value in an administrator's request."""
MASK = "******"
"""The text that replaces a secret."""
DENY, PUB, SUB = 1, 4, 8
"""Permission bits; DENY refuses whatever the other bits say."""

_WORDS = {"PUB": PUB, "SUB": SUB, "PUB|SUB": PUB | SUB, "SUB|PUB": PUB | SUB, "DENY": DENY}


def bits(word: object, *at: str | int) -> int:
    """The bits of a permission word; None is DENY. Raises AclError for any other value.

    RocketMQ takes a misspelled word for DENY. at: where the word is in its account.
    """
    if word is None:
        return DENY
    known = _WORDS.get(word.strip()) if isinstance(word, str) else None
    if known is None:
        words = ", ".join(_WORDS)
        raise AclError(f"the permission {str(word)[:255]!r} is none of {words}", *at)
    return known


@dataclass(frozen=True, slots=True)
class Account:
    """An account.

    topics, groups: permission bits by name. white: addresses that need no permissions.
    """

    access_key: str
    secret_key: str = field(repr=False)
    white: tuple[Pattern, ...] = ()
    admin: bool = False
    default_topic: int = DENY
    default_group: int = DENY
    topics: Mapping[str, int] = field(default_factory=dict)
    groups: Mapping[str, int] = field(default_factory=dict)

    def may_read(self, topic: str) -> bool:
        """Whether the account may consume a topic; a retry topic is its group's."""
        if self.admin and not self.topics and not self.groups:
            return True
        group = topic.removeprefix(RETRY_PREFIX)
        if group != topic:
            owned = self.groups.get(group, self.default_group)
        else:
            owned = self.topics.get(topic, self.default_topic)
        return not owned & DENY and bool(owned & SUB)

    def row(self) -> tuple[object, ...]:
        """The account in the form of the published table "acl"."""
        return (
            self.secret_key,
            self.admin,
            [list(pattern) for pattern in self.white],
            self.default_topic,
            self.default_group,
            dict(self.topics),
            dict(self.groups),
        )


def read_account(entry: object) -> Account:
    """Read one entry of `accounts`. Raises AclError naming the mistake in the entry."""
    if not isinstance(entry, Mapping):
        raise AclError(f"an account must be a mapping, not {type(entry).__name__}")
    access, secret = scalar(entry, "accessKey"), scalar(entry, "secretKey")
    check_keys(access, secret)
    assert access is not None and secret is not None
    topics, groups = _permissions(entry, "topicPerms"), _permissions(entry, "groupPerms")
    for name in [name for name in topics if name.startswith(RETRY_PREFIX)]:
        # RocketMQ treats the permission for a retry topic as one for its group.
        groups[name.removeprefix(RETRY_PREFIX)] = topics.pop(name)
    return Account(
        access,
        secret,
        tuple(patterns(scalar(entry, "whiteRemoteAddress"))),
        truth(entry.get("admin")),
        bits(entry.get("defaultTopicPerm"), "defaultTopicPerm"),
        bits(entry.get("defaultGroupPerm"), "defaultGroupPerm"),
        topics,
        groups,
    )


def check_keys(access: str | None, secret: str | None) -> None:
    """Check that both keys exist and are long enough.

    Raises AclError in RocketMQ's words, without the secret.
    """
    if not all(key is not None and len(key) >= KEY_LENGTH_MIN for key in (access, secret)):
        shown = "null" if secret is None else MASK
        raise AclError(
            f"The accessKey={'null' if access is None else access[:255]} and secretKey={shown} "
            "cannot be null and length should longer than 6"
        )


def check_lengths(values: Iterable[str | None]) -> None:
    """Check the lengths of the values in an administrator's request. Raises AclError."""
    longest = max((len(value) for value in values if value is not None), default=0)
    if longest > TEXT_LENGTH_MAX:
        raise AclError(f"a value has {longest} characters; the limit is {TEXT_LENGTH_MAX}")


def check_permissions(entries: Iterable[str]) -> None:
    """Check that each entry has the form `NAME=WORD`. Raises AclError in RocketMQ's words."""
    for entry in entries:
        parts = [part for part in entry.split("=") if part]
        if len(parts) != 2:
            raise AclError(
                f"Parse Resource format error for {entry[:255]}.\nThe expected resource format is "
                "'Res=Perm'. For example: topicA=SUB"
            )
        if parts[1].strip() not in _WORDS:
            raise AclError(
                f"Parse resource permission error for {entry[:255]}.\n"
                "The expected permissions are 'SUB' or 'PUB' or 'SUB|PUB' or 'PUB|SUB'."
            )


def scalar(entry: Mapping[object, object], name: str) -> str | None:
    """A text value; unquoted digits, which YAML reads as a number, become text again."""
    value = entry.get(name)
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise AclError(f"YAML reads {name} as a {type(value).__name__}; put the value in quotes")


def truth(value: object) -> bool:
    """Whether a value is True or the text "true"."""
    return value is True or (isinstance(value, str) and value.strip().lower() == "true")


def _permissions(entry: Mapping[object, object], name: str) -> dict[str, int]:
    """Read `topicPerms` or `groupPerms`, a list of NAME=WORD, to permission bits by name."""
    listed = entry.get(name)
    if listed is None:
        return {}
    if not isinstance(listed, list):
        raise AclError(f"{name} must be a list, not {type(listed).__name__}")
    kind, found = name.removesuffix("Perms"), {}
    for index, item in enumerate(listed):
        parts = [part for part in item.split("=") if part] if isinstance(item, str) else []
        if len(parts) != 2:
            failed = f"Parse resource permission failed for {kind}:{str(item)[:255]}"
            raise AclError(failed, name, index)
        resource = parts[0].strip()
        if resource in found:
            raise AclError(f"{name} has {resource[:255]} twice", name, index)
        found[resource] = bits(parts[1], name, index)
    return found
