"""What was asked for: job file, site file, options, and where each value comes from."""
