"""OpenMessaging's access points: NameServers and a namespace in one URL."""

from mqclient.integrations.oms import AccessPoint

__all__ = ["AccessPoint"]
