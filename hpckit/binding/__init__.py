"""Ranks onto cores, GPUs and NICs of a node, and the proof of it."""
