"""What is wrong with a node."""
