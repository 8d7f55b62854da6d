"""What the packages share: the protocol, messages, names, files, and the parts of commands."""
