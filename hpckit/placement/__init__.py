"""Ranks onto nodes, by what the network makes of their traffic."""
