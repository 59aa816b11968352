"""The bus bandwidth that collectives should reach."""
