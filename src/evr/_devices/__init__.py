"""Devices that draw samples for the kernel, which knows none of them: each registers itself in the kernel's table."""

from evr._devices.cuda import on_gpu
from evr._kernel.sampled.summary import BACKENDS

BACKENDS["cuda"] = on_gpu
