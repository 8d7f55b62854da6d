"""Servers inside a program or a test."""
