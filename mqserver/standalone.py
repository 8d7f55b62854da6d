"""A NameServer and a broker together: in this process, or in a process of their own."""

from mqserver.embedded.standalone import Standalone

__all__ = ["Standalone"]
