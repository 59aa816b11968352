"""Captures of a node, one module a format."""
