"""Claims, attempts and results: only here are proofs, verdicts and guarantees made."""
