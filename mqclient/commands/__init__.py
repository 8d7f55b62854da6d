"""What the commands that connect share: `connection.py` and `failures.py`.

`mqstore.commands` has what every command needs.
"""
