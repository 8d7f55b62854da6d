"""Access control: RocketMQ's account files, read, watched, published to the plane, changed."""
