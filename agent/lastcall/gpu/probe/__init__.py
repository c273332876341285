"""The probe: asks the driver about the GPUs, in a process of its own that may hang or die."""
