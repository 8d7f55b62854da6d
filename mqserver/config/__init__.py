"""The settings of broker and NameServer: their tables, their files, and the objects in use.

`table.py` defines the form of a setting. Each setting is declared once, as a field of a group in
`*_table.py`; `BROKER` and `NAMESRV` collect the groups of a server and RocketMQ's keys without
effect. `load.py` applies RocketMQ's order of precedence, `settings.py` makes and checks the frozen
objects that the servers use, `online.py` changes settings while a server runs, and `page.py`
writes docs/settings.md.
"""
