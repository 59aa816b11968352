"""What a run of NCCL shows: logs and results of nccl-tests."""
