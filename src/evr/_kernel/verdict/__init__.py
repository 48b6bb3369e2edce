"""Claims, attempts and results: verdicts and guarantees are made here only (proofs: ``strict/proof.py``)."""
