"""Proof files: the writer, and the checker that is copied beside them."""
