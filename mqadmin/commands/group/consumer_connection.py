"""mqadmin consumerConnection: the members of a consumer group and their subscriptions."""

from __future__ import annotations

from mqadmin.command import Arguments, Command, Option
from mqadmin.java_order import properties_order
from mqadmin.report import Report
from mqclient.admin import Admin
from mqclient.admin.versions import version_name
from mqcommon.wire.bodies.groups import ConsumerConnection


async def run(admin: Admin, arguments: Arguments) -> Report:
    """Ask a broker of the group, or the broker of -b."""
    group = arguments.required("consumerGroup")
    found = await admin.groups.connection(group, arguments.text("brokerAddr") or None)
    row = {
        "group": group,
        "consumeType": found.consume_type,
        "messageModel": found.message_model,
        "consumeFromWhere": found.consume_from_where,
        "members": [
            {
                "clientId": member.client_id,
                "clientAddr": member.client_addr,
                "language": member.language,
                "version": version_name(member.version),
            }
            for member in found.connection_set
        ],
        "subscriptions": [
            {
                "topic": one.topic,
                "expressionType": one.expression_type,
                "expression": one.sub_string,
            }
            for _, one in sorted(found.subscription_table.items())
        ],
    }
    return Report([row], lambda: _text(found), single=True)


def _text(found: ConsumerConnection) -> str:
    lines = [f"{'#ClientId':<36} {'#ClientAddr':<22} {'#Language':<10} #Version"]
    for member in found.connection_set:
        version = version_name(member.version)
        client, language = f"{member.client_id:<36}", f"{member.language:<10}"
        lines.append(f"{client} {member.client_addr:<22} {language} {version}")
    lines += ["", "Below is subscription:", f"{'#Topic':<20} #SubExpression"]
    for key in properties_order(found.subscription_table):
        subscription = found.subscription_table[key]
        lines.append(f"{subscription.topic:<20} {subscription.sub_string}")
    return "\n".join(
        [
            *lines,
            "",
            f"ConsumeType: {found.consume_type}",
            f"MessageModel: {found.message_model}",
            f"ConsumeFromWhere: {found.consume_from_where}",
        ]
    )


CONSUMER_CONNECTION = Command(
    "consumerConnection",
    run,
    [
        Option("g", "consumerGroup", "consumer group name", required=True),
        Option("b", "brokerAddr", "broker address"),
    ],
)
