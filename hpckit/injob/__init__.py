"""What runs inside a job: standard library only."""
