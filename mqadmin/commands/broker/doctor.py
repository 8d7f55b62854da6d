"""mqadmin doctor: what is wrong in a cluster, how much, and what to do."""

from __future__ import annotations

from mqadmin.command import Arguments, Command, Option, UsageError
from mqadmin.doctor.access import check_access, check_unanswered
from mqadmin.doctor.facts import Facts
from mqadmin.doctor.findings import SEVERITIES, number, row_of, text_of
from mqadmin.doctor.groups import check_groups
from mqadmin.doctor.servers import check_servers
from mqadmin.doctor.survey import survey
from mqadmin.doctor.topics import check_topics
from mqadmin.report import Report
from mqclient.admin import Admin
from mqcommon.cli import exit_codes

SAMPLE_S = 6
"""Clients commit offsets every 5 s."""
IDLE_HOURS = 24


async def run(admin: Admin, arguments: Arguments) -> Report:
    """Ask all servers, then judge the answers. Exit code 1 if there is an error."""
    sample_s = arguments.number("sample", SAMPLE_S)
    idle_hours = arguments.number("idle", IDLE_HOURS)
    if sample_s < 0 or idle_hours < 0:
        raise UsageError("--sample and --idle must not be negative")
    expected = [name.strip() for name in (arguments.text("expect") or "").split(",")]
    facts = await survey(admin, sample_s)
    findings = [
        *check_servers(facts, [*filter(None, expected)]),
        *check_access(facts),
        *check_topics(facts, idle_hours),
        *check_groups(facts, idle_hours),
        *check_unanswered(facts),
    ]
    findings.sort(key=lambda finding: SEVERITIES.index(finding.severity))
    failed = any(finding.severity == "error" for finding in findings)
    return Report(
        [row_of(finding) for finding in findings],
        lambda: text_of(findings, _checked(facts)),
        exit_code=exit_codes.FAILED if failed else exit_codes.OK,
    )


def _checked(facts: Facts) -> str:
    topics = {topic for broker in facts.masters for topic in broker.topics}
    counts = (
        number(len(facts.namesrvs), "NameServer"),
        number(len(facts.brokers), "broker"),
        number(len(topics), "topic"),
        number(len(facts.groups), "group"),
    )
    return ", ".join(counts)


DOCTOR = Command(
    "doctor",
    run,
    [
        Option("", "sample", f"Seconds between two looks at offsets, 0 for one look [{SAMPLE_S}]"),
        Option("", "expect", "Names of brokers that must be registered: broker-a,broker-b"),
        Option("", "idle", f"Hours after which a topic or group counts as unused [{IDLE_HOURS}]"),
    ],
    description="What is wrong in a cluster, how much, and what to do",
)
