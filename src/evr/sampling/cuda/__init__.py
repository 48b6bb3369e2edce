"""The GPU: whether one can be used here, and what it draws. Nothing imports CuPy before it is
needed.
"""

from evr.sampling.cuda.device import SOURCE, Terms, draws, sums_of_block, why_not

__all__ = ["SOURCE", "Terms", "draws", "sums_of_block", "why_not"]
