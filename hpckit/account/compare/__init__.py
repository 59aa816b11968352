"""Two jobs beside each other."""
