"""What Slurm says, and how it is asked."""
