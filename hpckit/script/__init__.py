"""What is run: the launchers that start the ranks of a job."""
