"""What has no noun of its own: errors, quantities, text, documents, files, processes."""
