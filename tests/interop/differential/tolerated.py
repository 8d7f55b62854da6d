"""Where our servers answer otherwise than Java's, on purpose: one line a difference.

A line under which nothing differs any more fails the test.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import NamedTuple

from tests.interop.differential.case_tables import BINARY
from tests.interop.differential.masking import Outcome


class Line(NamedTuple):
    """cases: "table:case", with `*`. parts: names of Outcome's parts that may differ, separated
    by blanks. why: the reason, for readers. java, ours: regular expressions that match the
    start of the remark.
    """

    cases: str
    parts: str
    why: str
    java: str = ""
    ours: str = ""

    def covers(self, case: str, theirs: Outcome, ours: Outcome) -> bool:
        """Whether the line is about this case and these outcomes."""
        return (
            fnmatchcase(case.removeprefix(BINARY), self.cases)
            and re.match(self.java, theirs.remark or "") is not None
            and re.match(self.ours, ours.remark or "") is not None
        )


JAVA_ERROR = r"(java|javax|io\.netty|org\.apache|com\.alibaba)\.[\w.$]+(Exception|Error)"
ALL = "code remark fields body serialize"

TOLERATED = (
    # --- bad input: refused in words
    Line("*", "remark fields serialize", "words where Java shows an exception", java=JAVA_ERROR),
    Line("*", ALL, "what is missing or no number is named; Java goes on", ours="HeaderError: "),
    Line("*", ALL, "a body that is none is refused; Java goes on with null", ours="BodyError: "),
    Line("send:batch, *", "code", "a malformed batch is illegal", ours="the message is illegal"),
    Line("send:batch, *", "remark fields", "the same", ours="the message is illegal"),
    Line("send:send; empty j", "code", "no digits are no number of retries", java=JAVA_ERROR),
    Line("pull:fewer than none", "code body", "as none: one message", java=JAVA_ERROR),
    Line("query:minus one", "code", "fewer than no messages are none", java=JAVA_ERROR),
    Line("send:sysFlag all", "fields", "a producer cannot make its address an IPv6 one"),
    Line("clients:no subscriptions", "code", "a consumer may want nothing", java=JAVA_ERROR),
    Line("*", "remark", "words for Java's null", java="Cannot invoke"),
    # --- illegal names never become topics, groups or files
    Line("*", ALL, "no group of an illegal name is made", ours="subscription group not exist, "),
    Line("clients:connections of climbing", ALL, "no group of an illegal name is made"),
    Line("clients:who consumes", "body", "nor of none, nor one too long for a retry topic"),
    Line("groups:all stats*", "body", "those that Java made stay; leaving makes no group either"),
    Line("groups:group *", "code remark", "nor by code 200", ours="group '.*': a name must match "),
    Line(
        "offsets:commit bad; *",
        "code remark fields",
        "illegal topics have no offsets",
        ours="The specified topic ",
    ),
    # --- refused messages cannot be read
    Line("offsets:query; consumerGroup *", "fields", "no offset of an illegal group is kept"),
    Line("groups:bad stats; consumerGroup *", "body", "no offset of an illegal group is kept"),
    Line("offsets:bad correction; *topic*", "body", "no offset of an illegal topic is kept"),
    Line("clients:bad who; *topic*", "body", "nobody committed for an illegal topic"),
    # --- configuration: listed keys, values of their type
    Line("*:update config; *", "code remark", "checked", ours=r".*(must be|UTF-8)"),
    Line("unknown:get config", "body", "Java overwrites bitMapLengthConsumeQueueExt at its start"),
    Line("acl:make; odd address", "remark", "the account is named"),
    Line("acl:white list; odd", "code remark", "addresses are checked"),
    Line("*bad:*", "code remark", "configuration is text", ours="the body is not UTF-8"),
    Line("bad:12, *", "code", "fewer than no messages are none", java=JAVA_ERROR),
    Line("bad:321, *", "code remark", "no request makes a queue", ours=".* is not exist!"),
    Line("topics:perm 15", "code remark", "a permission is 0 to 7"),
    # --- transactions
    Line("transactions:commit the rolled back", "code remark", "a transaction ends once"),
    Line("transactions:stored", "fields", "so a commit after a rollback stores nothing"),
    Line("checks:half immune", "told", "a copy of a half message names its transaction"),
    Line("checks:pull the given up", "body", "the same"),
    # --- access control
    Line("acl:*: lock", ALL, "locks need a permission for the group"),
    Line("acl:*: unlock", ALL, "the same"),
    Line("acl:*: reply", "code remark fields", "a reply needs a permission for its topic"),
    Line("acl:make; odd default", "code remark", "a permission must be understood"),
    Line("acl:*: batch *", "code remark fields", "a batch needs what a send needs"),
    Line("acl:white: *", "code remark", "no admin by address", ours=r".*Need admin permission"),
    Line("bad:50, *", "remark", "no secret is told", java="The accessKey="),
    Line("bad:5?, long words", "remark", "long words are cut"),
    Line("acl:make; short *", "remark", "no secret is told"),
    Line("acl:configuration", "body", "no secret is told"),
    Line("acl:unique key, signed", "code", "both ways to sign a key's query are good"),
    # --- messages that are stored remain stored
    Line("stored:reply, compressed: *", "body", "its flag is kept, so that it can be read"),
    Line("topics:stats", "body", "queues of a topic that is made anew go on where they ended"),
    Line("names_kv:update config; home", "code remark", "paths do not change while running"),
)
