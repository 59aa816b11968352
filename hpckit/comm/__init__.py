"""NCCL, RCCL and MPI: the environment of a job, its rules, and the lint."""
