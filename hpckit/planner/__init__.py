"""Does the model fit on these GPUs, how to split it, how long it takes, at what power."""
