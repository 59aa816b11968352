"""A node as SVG."""
