"""Asks all servers of a cluster, a bounded number at a time; a server that is down ends nothing."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from mqadmin.doctor.facts import RUNTIME, BrokerFacts, Facts, Progress, Unanswered
from mqclient.admin import Admin
from mqclient.engine.parallel import in_parallel
from mqclient.errors import BrokerError, NotFoundError, RocketMQError
from mqclient.settings.identity import Credentials
from mqcommon.names import DLQ_PREFIX, is_of_a_group, is_system_group, retry_topic
from mqcommon.wire.bodies.groups import BrokerStatsItem
from mqcommon.wire.bodies.route import ClusterInfo
from mqcommon.wire.codes import ResponseCode

__all__ = ["WELL_KNOWN", "survey"]

WELL_KNOWN = (("RocketMQ", "12345678"), ("rocketmq2", "12345678"), ("rocketmq", "12345678"))
"""The accounts of the sample plain_acl.yml of RocketMQ 4.9, and of RocketMQ 5's documentation."""
UNKNOWN_ACCOUNT = ("No acl config", "signature", "is not found")
"""Words of a broker that does not accept an account's keys: `PlainPermissionManager.validate` of
RocketMQ 4.9, `DefaultAuthenticationHandler` of 5.3."""
RETURNED, GOT = "SNDBCK_PUT_NUMS", "GROUP_GET_NUMS"


async def survey(admin: Admin, sample_s: float) -> Facts:
    """Ask everything. sample_s: seconds between two samples of offsets; 0 takes one sample.

    Raises the last error if no NameServer answers.
    """
    facts = Facts(sample_s=sample_s)
    await _ask_namesrvs(admin, facts)
    await in_parallel(lambda broker: _ask_broker(admin, facts, broker), facts.brokers)
    sampled = time.monotonic()
    await in_parallel(lambda broker: _probe_accounts(admin, facts, broker), facts.living)
    await in_parallel(lambda one: _ask_extents(admin, facts, *one), list(_unconsumed(facts)))
    await in_parallel(lambda group: _ask_members(admin, facts, group), facts.groups)
    await in_parallel(lambda one: _ask_returned(admin, facts, *one), list(_returning(facts)))
    await in_parallel(lambda group: _ask_dead_letters(admin, facts, group), _dead(facts))
    if sample_s > 0:
        await asyncio.sleep(max(0.0, sampled + sample_s - time.monotonic()))
        await in_parallel(lambda broker: _sample(admin, facts, broker), facts.masters)
    facts.now_ms = _now_ms()
    return facts


@contextmanager
def _noting(facts: Facts, what: str, subject: str) -> Iterator[None]:
    """Note a question that is not answered, and go on."""
    try:
        yield
    except RocketMQError as error:
        facts.unanswered.append(Unanswered(what, subject, error))


async def _ask_namesrvs(admin: Admin, facts: Facts) -> None:
    async def ask(address: str) -> None:
        try:
            facts.namesrvs[address] = await admin.brokers.clusters(address)
        except RocketMQError as error:
            facts.namesrvs[address] = error

    await in_parallel(ask, await admin.namesrv.addresses())
    views = [view for view in facts.namesrvs.values() if isinstance(view, ClusterInfo)]
    if not views:
        raise next(view for view in facts.namesrvs.values() if isinstance(view, RocketMQError))
    known: dict[tuple[str, int], BrokerFacts] = {}
    for view in views:
        clusters = {name: c for c, names in view.cluster_addr_table.items() for name in names}
        for name, data in view.broker_addr_table.items():
            for broker_id, address in data.broker_addrs.items():
                known[name, broker_id] = BrokerFacts(
                    clusters.get(name, ""), name, broker_id, address
                )
    facts.brokers = [known[key] for key in sorted(known)]


async def _ask_broker(admin: Admin, facts: Facts, broker: BrokerFacts) -> None:
    broker.asked_ms = _now_ms()
    try:
        broker.runtime = await admin.brokers.runtime(broker.address)
    except BrokerError as error:  # it is reached, and refuses the account
        facts.unanswered.append(Unanswered(RUNTIME, broker.subject, error))
    except RocketMQError as error:
        broker.failure = error
        return
    broker.answered_ms = _now_ms()
    with _noting(facts, "configuration", broker.subject):
        broker.config = await admin.brokers.config(broker.address)
    if not broker.is_master:
        return
    with _noting(facts, "topics", broker.subject):
        broker.topics = await admin.topics.user_configs(broker.address, special_topics=True)
    with _noting(facts, "groups", broker.subject):
        broker.groups = await admin.groups.user_configs(broker.address)
    with _noting(facts, "offsets of groups", broker.subject):
        broker.first = await _offsets(admin, broker)


async def _sample(admin: Admin, facts: Facts, broker: BrokerFacts) -> None:
    with _noting(facts, "offsets of groups", broker.subject):
        broker.second = await _offsets(admin, broker)


async def _offsets(admin: Admin, broker: BrokerFacts) -> Progress:
    found: Progress = {}
    answer = await admin.brokers.consume_stats(broker.address)
    for table in answer.consume_stats_list:
        for group, topics in table.items():
            if not is_system_group(group):
                for stats in topics:
                    found.setdefault(group, {}).update(stats.offset_table)
    return found


async def _probe_accounts(admin: Admin, facts: Facts, broker: BrokerFacts) -> None:
    """Sign a harmless request with each well-known account, if the broker asks for accounts."""
    if not broker.has_accounts:
        return
    with _noting(facts, "well-known accounts", broker.subject):
        nobody = f"doctor{secrets.token_hex(4)}", secrets.token_hex(8)
        broker.is_open = await _accepts(admin, broker, *nobody)
        if not broker.is_open:
            broker.accounts = [
                access for access, key in WELL_KNOWN if await _accepts(admin, broker, access, key)
            ]


async def _accepts(admin: Admin, broker: BrokerFacts, access: str, secret: str) -> bool:
    """Whether the broker accepts these keys; an account without the right is accepted, too."""
    async with admin.with_account(Credentials(access, secret)) as other:
        try:
            await other.brokers.runtime(broker.address)
        except BrokerError as error:
            return not any(words in error.remark for words in UNKNOWN_ACCOUNT)
    return True


def _unconsumed(facts: Facts) -> Iterator[tuple[BrokerFacts, str]]:
    """The user topics of each broker in which no group has an offset."""
    consumed = {
        queue.topic for one in facts.masters for table in one.first.values() for queue in table
    }
    for broker in facts.masters:
        for topic in broker.topics:
            if topic not in consumed and not is_of_a_group(topic):
                yield broker, topic


async def _ask_extents(admin: Admin, facts: Facts, broker: BrokerFacts, topic: str) -> None:
    with _noting(facts, f"extent of topic {topic}", broker.subject):
        stats = await admin.topics.stats(topic, broker.address)
        broker.extents[topic] = stats.offset_table


async def _ask_members(admin: Admin, facts: Facts, group: str) -> None:
    """The members at the first broker that has some; a member is connected to all its brokers."""
    for broker in facts.masters:
        if group not in broker.groups and group not in broker.first:
            continue
        try:
            facts.members[group] = await admin.groups.connection(group, broker.address)
            return
        except NotFoundError:
            continue
        except BrokerError as error:
            if error.code == ResponseCode.CONSUMER_NOT_ONLINE:
                continue
            failure: RocketMQError = error
        except RocketMQError as error:
            failure = error
        facts.unanswered.append(Unanswered(f"members of group {group}", broker.subject, failure))


def _returning(facts: Facts) -> Iterator[tuple[BrokerFacts, str, str]]:
    """Each broker, topic and group that is online and has ever returned a message there."""
    for broker in facts.masters:
        for group, offsets in broker.first.items():
            retries = retry_topic(group)
            returned = any(q.topic == retries and one.broker_offset for q, one in offsets.items())
            if returned and group in facts.members:
                topics = {queue.topic for queue in offsets}
                yield from ((broker, topic, group) for topic in sorted(topics))


async def _ask_returned(
    admin: Admin, facts: Facts, broker: BrokerFacts, topic: str, group: str
) -> None:
    async def minute(name: str) -> BrokerStatsItem:
        with suppress(BrokerError):  # nothing was counted
            return (await admin.brokers.stats(broker.address, name, key)).stats_minute
        return BrokerStatsItem()

    key = f"{topic}@{group}"
    with _noting(facts, f"returned messages of group {group}", broker.subject):
        returned, got = await minute(RETURNED), await minute(GOT)
        before = facts.returned.get((topic, group), (BrokerStatsItem(), BrokerStatsItem()))
        facts.returned[topic, group] = (
            BrokerStatsItem(sum=before[0].sum + returned.sum),
            BrokerStatsItem(sum=before[1].sum + got.sum),
        )


def _dead(facts: Facts) -> list[str]:
    """The groups that have a dead-letter topic."""
    topics = {topic for broker in facts.masters for topic in broker.topics}
    return sorted(t.removeprefix(DLQ_PREFIX) for t in topics if t.startswith(DLQ_PREFIX))


async def _ask_dead_letters(admin: Admin, facts: Facts, group: str) -> None:
    with _noting(facts, "dead letters", f"group {group}"):
        facts.dead_letters[group] = (await admin.dead_letters.topic(group)).waiting


def _now_ms() -> int:
    return int(time.time() * 1000)
