"""What a job used: samples and ledgers into energy, usage, waste and advice."""
