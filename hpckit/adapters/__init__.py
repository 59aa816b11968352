"""Adapters: the only modules that read or write anything outside the process."""

from __future__ import annotations
