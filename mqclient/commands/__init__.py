"""What the commands that connect share: `connection.py`, `failures.py` and `signals.py`.

`mqstore.commands` has what every command needs.
"""
