"""A process of its own that asks the driver how the GPUs are, and says it in lines of JSON.

A call into the driver may never come back, and then nothing ends the process that made it. So this
one holds nothing that others wait for: no socket, no lock, no port.
"""
