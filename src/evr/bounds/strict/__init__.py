"""Upper bounds on delta in exact arithmetic: balls, integers, products of polynomials (docs/guarantees_strict.md)."""

from evr.bounds.strict.bound import Halves, halves, infinite_delta, one_step_delta, stays_within
from evr.bounds.strict.plan import Grid, Plan, Window, schedule

__all__ = ["Grid", "Halves", "Plan", "Window", "halves", "infinite_delta", "one_step_delta", "schedule", "stays_within"]
