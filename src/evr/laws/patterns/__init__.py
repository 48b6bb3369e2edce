"""Laws in many dimensions, by the patterns in which a record takes part: a mixture of Gaussians, one for each pattern,
against one Gaussian (docs/guarantees_highdim.md).
"""
