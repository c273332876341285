"""The running agent: one queue, one consumer, and the adapters wired to it."""
