"""The accounts of jobs as Parquet."""
