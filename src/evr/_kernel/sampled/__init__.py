"""The second road: plans, proposals, draws and tests (docs/guarantees.md, Sections 2 to 4 and 6)."""

# each registers its proposal, which a worker elsewhere may be asked for
from evr._kernel.sampled import line as line
from evr._kernel.sampled import mixtures as mixtures
from evr._kernel.sampled import simple as simple
