"""The commands of `mqserver`."""
