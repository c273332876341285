"""What is kept and shown of all that happens: the journal, the metrics and the status."""
