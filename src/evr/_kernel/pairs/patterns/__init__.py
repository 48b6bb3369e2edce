"""Laws in many dimensions, by the patterns in which a record takes part (docs/guarantees_highdim.md)."""
