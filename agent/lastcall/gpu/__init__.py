"""The health of the GPUs: a probe in a process of its own, and what keeps it running."""
