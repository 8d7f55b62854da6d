"""Signed requests, by Python's own hmac: a second opinion on the compiled signature."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from pathlib import Path

from mqcommon.wire.frame import Frame

USER, ADMIN = ("rocketuser", "12345678"), ("rocketadmin", "87654321")
"""The accounts of the recording."""

PLAIN_ACL = """\
globalWhiteRemoteAddresses: []
accounts:
- accessKey: rocketuser
  secretKey: 12345678
  whiteRemoteAddress: null
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: SUB
  topicPerms:
  - AclPub=PUB
  - AclSub=SUB
  - AclDeny=DENY
  groupPerms:
  - acl_group=SUB
- accessKey: rocketadmin
  secretKey: 87654321
  whiteRemoteAddress: null
  admin: true
"""
"""The file with which RocketMQ recorded the sessions."""


def signature(fields: Mapping[str, str], body: bytes, secret: str) -> str:
    """RocketMQ's rule: the values in the order of their names, then the body."""
    names = sorted(fields, key=lambda name: name.encode("utf-16-be"))
    content = "".join(fields[name] for name in names if name != "Signature").encode() + body
    digest = hmac.new(secret.encode(), content, hashlib.sha1).digest()
    return base64.b64encode(digest).decode()


def signed(
    code: int,
    fields: Mapping[str, str] | None = None,
    body: bytes = b"",
    account: tuple[str, str] = USER,
    *,
    serialize: int = 0,
    flag: int = 0,
) -> Frame:
    """A request of an account."""
    full = {**(fields or {}), "AccessKey": account[0]}
    full["Signature"] = signature(full, body, account[1])
    return Frame(code, full, body, serialize=serialize, flag=flag)


def send(topic: str, code: int = 310) -> dict[str, str]:
    """The fields of a send."""
    letters = {"a": "p", "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1"}
    if code != 10:
        return {**letters, "h": "0", "i": "WAIT\x01true", "j": "0", "k": "false", "m": "false"}
    names = ("producerGroup", "topic", "defaultTopic", "defaultTopicQueueNums", "queueId",
             "sysFlag", "bornTimestamp")  # fmt: skip
    return {**dict(zip(names, letters.values(), strict=True)), "flag": "0", "properties": ""}


def home_with(folder: Path, text: str = PLAIN_ACL) -> Path:
    """A RocketMQ home with this main access file."""
    (folder / "conf").mkdir(parents=True, exist_ok=True)
    (folder / "conf" / "plain_acl.yml").write_text(text)
    return folder
