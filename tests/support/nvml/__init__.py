"""A fake NVIDIA driver: a library that pynvml loads, steered by the test while it is in use."""

from __future__ import annotations

from support.nvml.build import build_library
from support.nvml.driver import FakeDriver
from support.nvml.layout import Kind

__all__ = ["FakeDriver", "Kind", "build_library"]
