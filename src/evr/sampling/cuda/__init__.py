"""The GPU: whether one can be used here, and what it draws. Nothing imports CuPy before it is needed."""

from evr.sampling.cuda.device import at_work, draws, on_device, why_not

__all__ = ["at_work", "draws", "on_device", "why_not"]
