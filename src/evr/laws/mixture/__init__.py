"""Laws in many dimensions: a mixture of Gaussians against one Gaussian
(docs/guarantees_highdim.md).
"""
