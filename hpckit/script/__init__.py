"""What is run: the launch plan, and the batch script that a person reviews."""
