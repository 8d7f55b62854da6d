"""Access control with RocketMQ's account files: read, watch, publish and change them."""
