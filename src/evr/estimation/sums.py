"""Sums of products on the calling thread.

BLAS hands a product of two long vectors to threads of its own. Waking them costs more than the sum, a thousand times as
much on a busy machine, and the last digits then depend on the number of cores.
"""

from __future__ import annotations

import numpy as np

from evr.laws import Floats


def dot(x: Floats, y: Floats) -> float:
    """The sum of ``x * y``, added in pairs: the same on every machine.

    Examples
    --------
    >>> import numpy as np
    >>> dot(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    11.0
    """
    return float(np.sum(x * y))
