"""Asks the product environment of a test cluster for the routes of topics that only it has.

As in RocketMQ's `ClusterTestRequestProcessor`, an address server lists the NameServers of the
product environment under its unit name.
"""

from __future__ import annotations

import logging
import threading

from mqclient.blocking.admin import Admin
from mqclient.engine.address_server import address_server_url
from mqclient.errors import NoRouteError, RocketMQError
from mqserver.namesrv.answers import LEGACY, route_body

log = logging.getLogger("mqserver.namesrv")
TIMEOUT_S = 5.0
"""Longest wait for one answer, as in RocketMQ's admin client."""


class ProductEnvironment:
    """Asks the NameServers of another environment.

    name: its unit at the address server. domain: host or host:port of the address server.
    subgroup: the address server's group of lists.
    """

    def __init__(self, name: str, domain: str, subgroup: str) -> None:
        self._name = name
        self._url = address_server_url(domain, subgroup, name)
        self._lock = threading.Lock()
        self._admin: Admin | None = None

    def route(self, topic: str) -> bytes | None:
        """The route of a topic as a body, blocking; None if there is no route or no answer."""
        try:
            found = self._client().topics.route(topic)
        except NoRouteError:
            return None
        except RocketMQError as error:
            log.warning(
                "cannot get the route of topic %s from environment %s: %s", topic, self._name, error
            )
            return None
        rows = {
            queue.broker_name: (
                queue.read_queue_nums,
                queue.write_queue_nums,
                queue.perm,
                queue.topic_sys_flag,
            )
            for queue in found.queue_datas
        }
        order = found.order_topic_conf
        return route_body(found.broker_datas, rows, found.filter_server_table, order, LEGACY)

    def _client(self) -> Admin:
        with self._lock:
            if self._admin is None:
                admin = Admin(self._url, timeout=TIMEOUT_S)
                admin.start()
                self._admin = admin
            return self._admin

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            if self._admin is not None:
                self._admin.close()
