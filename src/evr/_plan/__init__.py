"""Chooses plans for proofs. A choice may be bad without harm: guarantees are computed from its result."""
