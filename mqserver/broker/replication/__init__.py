"""Masters and slaves: what each refuses, the copy of a master's state, and the HA port."""
