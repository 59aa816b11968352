"""Model → SVG."""
