"""Code that several packages use: the protocol, messages, names, files, and parts of commands."""
