"""Samples → metrics: integration, attribution, waste."""
