"""Bodies of the protocol, under their older path; see `mqcommon.wire`."""
