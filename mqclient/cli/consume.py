"""`mqclient consume`: not built yet."""

import click

from mqstore.commands import exit_codes

__all__ = ["consume"]

PURPOSE = "read a topic as a member of a consumer group"


@click.command(
    help=f"Not built yet: {PURPOSE}.",
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
)
@click.pass_context
def consume(context: click.Context) -> None:
    """Say what reads meanwhile."""
    click.echo(
        f"{context.command_path} is not built yet (it will {PURPOSE}); "
        f"mqclient tail reads without a group, mqclient.PushConsumer with one.",
        err=True,
    )
    context.exit(exit_codes.USAGE)
