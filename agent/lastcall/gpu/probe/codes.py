"""The return codes of the driver's library (``nvmlReturn_t`` in ``nvml.h``) that are told apart."""

UNINITIALIZED = 1
INVALID_ARGUMENT = 2
NOT_SUPPORTED = 3
TIMEOUT = 10
LIBRARY_NOT_FOUND = 12
FUNCTION_NOT_FOUND = 13
CORRUPTED_INFOROM = 14
UNKNOWN = 999

UNSUPPORTED = frozenset({INVALID_ARGUMENT, NOT_SUPPORTED, FUNCTION_NOT_FOUND, 25, 26})
"""This GPU or this driver does not have the signal: it is not asked again.

Besides: the structure's version is not known (25), deprecated (26). An old driver answers to the
number of a field that came after it that the argument is invalid.
"""

GONE = frozenset({15, 28})
"""The GPU is lost, or not found any more: every further call is one that may hang."""

BROKEN = frozenset({11, 16, *GONE})
"""The GPU cannot be used; besides those gone: trouble with its interrupts (11), needs a reset."""

UNCLEAR = frozenset({17, UNKNOWN})
"""Something is wrong and the driver cannot say what; from one signal alone it says little.

17: the operating system refused.
"""

NO_ACCESS = frozenset({9, *UNCLEAR})
"""What a process hears whose device files were taken away; 9: the driver is not loaded."""
