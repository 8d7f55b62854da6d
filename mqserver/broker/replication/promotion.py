"""A broker that was a slave, and starts as a master.

A slave that stops in order first creates the topics that its log has and its table lacks. A slave
that was killed could not, so its first start as a master does.
"""

from __future__ import annotations

import logging

from mqserver.broker.context import BrokerContext
from mqserver.broker.replication.late_topics import add_late_topics
from mqserver.broker.state.topics import FILE
from mqstore import Store

log = logging.getLogger("mqserver.broker.replication")
ROLE_FILE = "lastRole.json"
"""Says that the store was a slave's. RocketMQ does not know the file."""
SLAVE, MASTER = b'{"role":"SLAVE"}', b'{"role":"MASTER"}'


def note_slave(store: Store) -> None:
    """Note that the store is a slave's from now on. Raises StoreError if it cannot be saved."""
    if store.load_state(ROLE_FILE) != SLAVE:
        store.save_state(ROLE_FILE, SLAVE)


def finish(context: BrokerContext, store: Store) -> None:
    """Create what a killed slave could not, if the store was a slave's at its last start.

    If the topics cannot be saved, the next start tries again.
    """
    if store.load_state(ROLE_FILE) != SLAVE:
        return
    add_late_topics(context, store)
    try:
        context.saver.save_now(FILE)
        store.save_state(ROLE_FILE, MASTER)
    except OSError as error:
        log.warning("the promotion of this broker is not saved: %s", error)
