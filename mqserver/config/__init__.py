"""Settings tables in, frozen settings out.

`table.py` says what a setting is. Each is declared once, as a field of a group in `*_table.py`;
`BROKER` and `NAMESRV` collect the groups of a server and RocketMQ's keys without effect here.
`load.py` applies RocketMQ's order of precedence, `settings.py` makes and checks the frozen objects
that the servers use, `online.py` changes them while running, `page.py` writes docs/settings.md.
"""
