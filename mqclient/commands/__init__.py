"""Shared code of commands that connect: `connection.py`, `failures.py` and `signals.py`.

`mqstore.commands` has what every command needs.
"""
