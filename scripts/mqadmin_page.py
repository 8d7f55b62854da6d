"""Writes the page of mqadmin's commands from their parsers.

`make pages` updates docs/operations/mqadmin.md. The fields of rows are those of the checked-in
schemas in tests/admin/schemas.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from mqadmin.catalogue import SUBJECT_TITLES, SUBJECTS, command_of, description, is_rocketmqs
from mqadmin.command import Command
from mqadmin.exporting import DEFAULT_FOLDER
from mqadmin.help import usage

SCHEMAS = Path(__file__).parent.parent / "tests" / "admin" / "schemas"
HEAD = """# mqadmin

`make pages` writes this page from the commands.

`mqadmin` has RocketMQ 4.9's commands with their names, flags and text. It works with RocketMQ 4.9
and 5 and with mqstack. `mqadmin` lists the commands, `mqadmin help COMMAND` shows one of them.

## Common to all commands

| option | meaning |
|---|---|
| `-n`, `--namesrvAddr` | NameServers `HOST:PORT`, several by `;` |
| `--context NAME` | a [saved context](#contexts) |
| `--output rocketmq` | RocketMQ's own text; the default in a pipe or file |
| `--output table` | aligned columns; the default on a terminal |
| `--output json`, `jsonl`, `csv` | rows with the fields below; times are milliseconds since 1970 |
| `--watch SECONDS` | repeat the command until Ctrl-C |
| `--credentials FILE` | account, for brokers with {acl} |
| `--tls-config FILE` | connect by {tls} |
| `--address-map FROM=TO,...` | broker addresses to replace, for brokers behind NAT |
| `--debug` | show the traceback of a defect |

`--output table` shows RocketMQ's text where a command's result is no table.

A command that changes stored data needs an address that was given: `-n`, `-b`, `NAMESRV_ADDR` or a
context; others fall back on `127.0.0.1:9876`. On a terminal such a command shows its effect and
asks; `--yes` skips the question. Without a terminal RocketMQ's commands proceed, as in RocketMQ,
and the commands that RocketMQ does not have need `--yes`.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | failed; one line on standard error says what and why |
| 2 | the command line is wrong |
| 3 | a server cannot be reached or does not answer in time |
| 4 | access control refused the account |
| 70 | a defect of mqadmin; `--debug` shows the traceback |

## Contexts

`mqadmin context add prod -n 10.0.0.1:9876 --credentials tools.yml` saves a cluster under a name;
`mqadmin topicList --context prod` uses it. A command uses the first of these:

1. `--context NAME`; other options on the command line replace single values of the context.
2. `-n`, without a context, so that no context's account is used at another cluster by mistake.
3. The context that the environment variable `MQADMIN_CONTEXT` names, for one shell.
4. `NAMESRV_ADDR`, without a context.
5. The current context, which `mqadmin context use prod` chooses for all shells of this user.

A context has all that a command needs to connect: addresses, account, TLS and address map. What it
leaves out is as without a context. The file is `mqadmin/contexts.json` in `XDG_CONFIG_HOME`, else
in `~/.config`, and only its owner may read it. It never holds a secret, only the paths of files or
the names of environment variables (`--credentials-env ACCESS_KEY,SECRET_KEY`). Before a command
changes stored data, its question shows the context and the address.

## Differences from RocketMQ

- `cloneGroupOffset` copies the offsets of the topic of `-t`. RocketMQ's command copies those of
  the group's other topics too.
- `queryMsgById` and `queryMsgByUniqueKey` find a unique key with an account, too. RocketMQ's say
  that a 4.9.7 broker has no such message, because its client and broker sign different fields.
- `getAclConfig` hides the secret keys, whatever the broker sent.
- `startMonitoring` prints the lines that RocketMQ writes to the log of its client.
- The commands about accounts are refused by brokers of RocketMQ 5.3, which have users in place of
  the accounts of `plain_acl.yml`.
- A failure is one line and an exit code. RocketMQ prints a stack trace and exits with 0.
- In JSON and CSV a server that does not answer, or that refuses the account, is an error.
  RocketMQ's text has empty cells.

## Completion

`eval "$(mqadmin completion bash)"` completes commands and options in bash,
`eval "$(mqadmin completion zsh)"` in zsh, and `mqadmin completion fish | source` in fish.
"""
LINKED = {"acl": "access control", "tls": "TLS"}
"""Pages that the head links to."""


def page() -> str:
    """The page as Markdown."""
    links = {name: f"[{words}](../{name}.md)" for name, words in LINKED.items()}
    return "\n".join([HEAD.format(**links), *_subjects()]) + "\n"


def _subjects() -> Iterator[str]:
    for subject, names in SUBJECTS.items():
        if not names:
            continue
        yield f"## {SUBJECT_TITLES[subject]}\n"
        for name in names:
            yield _section(command_of(name))


def _section(command: Command) -> str:
    words = description(command.name).rstrip(".")
    parts = [f"### {command.name}\n", f"{words}.{_nature(command)}\n"]
    shown = usage(command).replace(DEFAULT_FOLDER, "{temporary folder}/rocketmq/export")
    parts.append(f"```text\n{shown}\n```\n")
    parts += [
        f"- `{option.flags[-1]}`: {option.help} (not in RocketMQ)\n"
        for option in command.more_options
    ]
    fields = "; ".join(_shapes(command.name))
    if fields:
        parts.append(f"Fields: {fields}.\n")
    return "\n".join(parts)


def _nature(command: Command) -> str:
    """What differs from most commands."""
    own = "" if is_rocketmqs(command.name) else " RocketMQ does not have this command."
    return own + (" It changes stored data." if command.effect is not None else "")


def _shapes(name: str) -> Iterator[str]:
    """The fields of each kind of row of a command, with their types; options make other rows."""
    stem = name.replace(" ", "_")
    paths = (path for form in (f"{stem}.json", f"{stem}[-_]*.json") for path in SCHEMAS.rglob(form))
    for path in sorted(paths):
        fields: dict[str, str] = json.loads(path.read_text())
        yield ", ".join(f"`{field}` {kind.replace('|', ' or ')}" for field, kind in fields.items())
