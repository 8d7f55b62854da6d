"""What the commands `mqstore`, `mqclient`, `mqadmin` and `mqserver` share.

`exit_codes.py`, `error_line.py`, `shortage.py` (memory or threads run out), `running.py` (an error
becomes a line and an exit code), `output.py` (rows as a table, JSON or CSV), `progress.py`,
`groups.py` (sub-commands loaded on use), `options.py` (options that mean the same everywhere),
`moments.py` (times). `mqclient.commands` adds what needs a connection.
"""
