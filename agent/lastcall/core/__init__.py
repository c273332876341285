"""The decision core: typed events in, a new state and commands out. No I/O, no clock. Pure."""
