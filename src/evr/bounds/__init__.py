"""What is proved without a sample: moments and greatest values, as finite sums over outcomes."""

from evr.bounds.moments import Tilt

__all__ = ["Tilt"]
