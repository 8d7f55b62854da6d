"""For tests: a broker in this process, free ports, one raw request."""

from mqserver.embedded.testing import Probe, Standalone, ask, free_port

__all__ = ["Probe", "Standalone", "ask", "free_port"]
