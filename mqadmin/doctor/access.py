"""Checks of access control, and questions that were not answered."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from mqadmin.doctor.facts import RUNTIME, Facts, Unanswered
from mqadmin.doctor.findings import Finding
from mqclient.errors import UnreachableError

__all__ = ["check_access", "check_unanswered"]


def check_access(facts: Facts) -> Iterator[Finding]:
    """Accounts with known passwords, and brokers that ask for no account."""
    for broker in facts.living:
        for access in broker.accounts:
            yield Finding(
                "error", "acl.default", broker.subject,
                f"accepts account {access} with the password of RocketMQ's samples",
                "give it another secretKey, or delete it: mqadmin deleteAclConfig "
                f"-b {broker.address} -a {access}",
            )  # fmt: skip
        if broker.is_open:
            yield Finding(
                "warning", "acl.open", broker.subject,
                "accepts any account from this machine: its address is in "
                "globalWhiteRemoteAddresses",
                "take the address out of plain_acl.yml if it is not needed",
            )  # fmt: skip
    without = [broker for broker in facts.living if broker.has_accounts is False]
    if without:
        yield Finding(
            "info", "acl.off", "brokers",
            f"{len(without)} of {len(facts.living)} brokers have no access control: whoever "
            "reaches their ports may read, change and delete everything",
            "close the ports to others, or set aclEnable=true",
            len(without), "brokers",
        )  # fmt: skip


def check_unanswered(facts: Facts) -> Iterator[Finding]:
    """Questions that a living server did not answer: what was not checked."""
    known = {broker.address for broker in facts.brokers if broker.failure is not None}
    same: dict[tuple[str, str], list[Unanswered]] = defaultdict(list)
    for one in facts.unanswered:
        if not (isinstance(one.error, UnreachableError) and one.error.address in known):
            same[one.subject, str(one.error)].append(one)
    for (subject, error), questions in same.items():
        is_blind = any(one.what == RUNTIME for one in questions)
        more = f" and {len(questions) - 1} more" if len(questions) > 1 else ""
        yield Finding(
            "error" if is_blind else "warning", "doctor.unanswered", subject,
            f"was not checked for {questions[0].what}{more}: {error}",
            "give an account that may read it, or look why the server does not answer",
            len(questions), "questions",
        )  # fmt: skip
