"""Decisions: model values in, model values out, no input or output of their own."""

from __future__ import annotations
