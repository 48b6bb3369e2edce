"""The GPU: whether one can be used here, and what it draws. Nothing imports CuPy before it is
needed.
"""

from evr.sampling.cuda.device import SOURCES, Terms, draws, sums_of_block, why_not

__all__ = ["SOURCES", "Terms", "draws", "sums_of_block", "why_not"]
