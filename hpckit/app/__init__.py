"""The use cases of hpckit: one function each, the world handed in as arguments."""
