"""Links to other libraries: logging, OpenTelemetry, OpenMessaging, serializers."""
