"""The names of methods, in one place."""

PROOFS = ("strict", "sequential", "fixed", "both")
"""How a claim is proved: in exact arithmetic; by samples, tested by betting; by a number of samples that is fixed in
advance (Algorithm 2 of the paper); strictly and by samples.
"""

AUTO = ("auto", *PROOFS)
"""The same, and strict where that takes seconds and succeeds, else sequential."""

ESTIMATES = ("fft", "strict", "rdp", "monte_carlo")
"""How epsilon or delta is estimated."""
