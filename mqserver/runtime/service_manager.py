"""Tells systemd that the server is ready or stops (the protocol of sd_notify)."""

from __future__ import annotations

import logging
import os
import socket

READY = "READY=1"
STOPPING = "STOPPING=1"


def notify(state: str) -> None:
    """Send a state to the service manager that started this process, if one asks for it.

    state: `READY` or `STOPPING`. systemd names its socket in NOTIFY_SOCKET for a service of
    Type=notify; a name that begins with @ is an abstract one. A socket that cannot be reached is
    logged, because the server works without it.
    """
    name = os.environ.get("NOTIFY_SOCKET")
    if not name:
        return
    address = f"\0{name[1:]}" if name.startswith("@") else name
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to_manager:
            to_manager.sendto(state.encode(), address)
    except OSError as error:
        logging.getLogger("mqserver").warning(
            "cannot tell the service manager %s at NOTIFY_SOCKET=%s: %s", state, name, error
        )
