"""The nouns of hpckit: frozen dataclasses and enums whose invariants hold from construction on."""
