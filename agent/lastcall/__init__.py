"""The training side of lastcall; needs the standard library alone."""

from lastcall._version import __version__

__all__ = ["__version__"]
