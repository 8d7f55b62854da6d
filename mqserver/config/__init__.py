"""Settings tables in, frozen settings out.

`table.py` says what a setting is, `broker_table.py` and `namesrv_table.py` list them, `load.py`
applies RocketMQ's order of precedence, `settings.py` holds the frozen objects the servers use,
`online.py` changes them while running.
"""
