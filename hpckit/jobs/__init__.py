"""Submission, and the life of a job until its end."""
