"""OpenTelemetry: spans for sends, receives and handlers; the context travels in the properties."""

from mqclient.integrations.otel import instrument, processing, traced

__all__ = ["instrument", "processing", "traced"]
