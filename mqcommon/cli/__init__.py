"""Code shared by the commands `mqstore`, `mqclient`, `mqadmin` and `mqserver`.

`exit_codes.py`, `error_line.py`, `shortage.py` (errors when memory or threads run out),
`running.py` (turns an error into a line and an exit code), `output.py` (rows as a table, JSON or
CSV), `progress.py`, `groups.py` (sub-commands loaded on use), `options.py` (options with the same
meaning everywhere), `moments.py` (times). `mqclient.cli` adds the code that needs a
connection.
"""
