"""hpckit: GPU jobs on Slurm, from the machine's topology to what the job cost."""

__version__ = "0.1.0"
