"""The sampling loop on each node, and what it reads."""
