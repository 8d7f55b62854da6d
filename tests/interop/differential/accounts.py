"""The accounts of the guarded brokers: one for each class of permission."""

from __future__ import annotations

USER = ("rocketuser", "12345678")
"""May use only the topics and groups with a permission in the file."""
ADMIN = ("rocketadmin", "87654321")
OPEN = ("openhanded", "open-secret")
"""May publish to and subscribe to every topic and group without a rule."""
WHITE = ("whitelisted", "white-secret")
"""Known by its address; may do nothing else."""
MUTE = ("mutemutemute", "mute-secret")
"""An account without any permission in the file."""

ACCOUNTS = """\
globalWhiteRemoteAddresses: [10.9.8.7]
accounts:
- accessKey: rocketuser
  secretKey: 12345678
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: DENY
  topicPerms: [AclPub=PUB, AclSub=SUB, AclDeny=DENY, AclBoth=PUB|SUB, AclTurned=SUB|PUB]
  groupPerms: [acl_sub=SUB, acl_pub=PUB, acl_deny=DENY, acl_both=PUB|SUB]
- accessKey: rocketadmin
  secretKey: 87654321
  admin: true
- accessKey: openhanded
  secretKey: open-secret
  defaultTopicPerm: PUB|SUB
  defaultGroupPerm: SUB
  topicPerms: [AclDeny=DENY]
- accessKey: whitelisted
  secretKey: white-secret
  whiteRemoteAddress: 127.0.0.1
  defaultTopicPerm: DENY
  defaultGroupPerm: DENY
- accessKey: mutemutemute
  secretKey: mute-secret
"""
