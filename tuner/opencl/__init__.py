"""Drivers, device description, build and launch: the only part that speaks to OpenCL.

`drivers`, `naming` and `cores` are plain Python; `describe` and `run` import pyopencl and are imported in child
processes only, after `drivers.install` has told the loader where to look.
"""
