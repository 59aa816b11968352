"""One node: its GPUs, links, NICs, CPUs, and what is wrong with them."""
