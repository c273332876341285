"""The numbers of the driver that are told apart: its library's return codes, and some XIDs.

Return codes are those of ``nvmlReturn_t`` in ``nvml.h``.
"""

UNINITIALIZED = 1
INVALID_ARGUMENT = 2
NOT_SUPPORTED = 3
NO_PERMISSION = 4
DRIVER_NOT_LOADED = 9
TIMEOUT = 10
IRQ_ISSUE = 11
LIBRARY_NOT_FOUND = 12
FUNCTION_NOT_FOUND = 13
CORRUPTED_INFOROM = 14
GPU_IS_LOST = 15
RESET_REQUIRED = 16
OPERATING_SYSTEM = 17
LIBRARY_MISMATCH = 18
GPU_NOT_FOUND = 28
UNKNOWN = 999

UNSUPPORTED = frozenset({INVALID_ARGUMENT, NOT_SUPPORTED, FUNCTION_NOT_FOUND, 25, 26})
"""This GPU or this driver does not have the signal: it is not asked again.

Besides: the structure's version is not known (25), deprecated (26). An old driver answers to the
number of a field that came after it that the argument is invalid.
"""

UNREADABLE = UNSUPPORTED | {NO_PERMISSION}
"""A signal cannot be read, and that does not pass by itself."""

GONE = frozenset({GPU_IS_LOST, GPU_NOT_FOUND})
"""There is no GPU any more: every further call is one that may hang."""

BROKEN = frozenset({IRQ_ISSUE, RESET_REQUIRED, *GONE})
"""The GPU cannot be used."""

UNCLEAR = frozenset({OPERATING_SYSTEM, UNKNOWN})
"""Something is wrong and the driver cannot say what; from one signal alone it says little.

A container gets these that may not use the device files any more (issues 48 and 1227 of NVIDIA's
container toolkit).
"""

NO_ACCESS = frozenset({DRIVER_NOT_LOADED, *UNCLEAR})
"""What a process hears that never had the device files, or from which they were taken away."""

ENDS_CALLS = frozenset({119, 120})
"""XIDs after which calls into the driver hang: none is made until it has been left in peace."""
