"""autodp's analytical Fourier accountant (Zhu, Dong and Wang 2022), for ``offline.py``.

It needs autodp and SciPy older than 1.14, so it runs in a Python of its own, without evr:

    python paper/afa.py '[noise multiplier, sampling probability, steps, epsilon]'

prints delta, the greater of both directions, and processor seconds.
"""

import contextlib
import io
import json
import sys
import time


def delta(noise: float, probability: float, steps: int, epsilon: float) -> float:
    from autodp import mechanism_zoo, transformer_zoo

    found = []
    for neighboring in ("remove_only", "add_only"):
        step = mechanism_zoo.ExactGaussianMechanism(noise)
        if probability < 1:
            sampling = transformer_zoo.AmplificationBySampling_pld(neighboring=neighboring)
            step = sampling(step, probability)
        total = transformer_zoo.ComposeAFA()([step], [steps])
        with contextlib.redirect_stdout(io.StringIO()):  # it prints its searches
            found.append(float(total.get_approx_delta(epsilon)))
    return max(found)


if __name__ == "__main__":
    start = time.process_time()
    value = delta(*json.loads(sys.argv[1]))
    print(json.dumps([value, time.process_time() - start]))
