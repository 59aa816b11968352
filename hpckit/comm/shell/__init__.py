"""Settings in shell scripts."""
