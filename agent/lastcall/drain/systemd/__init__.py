"""Stopping units of systemd after their processes have flushed."""
