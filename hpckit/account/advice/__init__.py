"""What the next job should ask for."""
