"""Draining a Slurm node, and requeueing its jobs, by the commands that Slurm comes with."""
