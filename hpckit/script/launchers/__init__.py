"""The ways to start ranks, one module a kind."""
