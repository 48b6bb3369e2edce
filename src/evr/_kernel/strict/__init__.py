"""Upper bounds on delta in exact arithmetic (docs/guarantees_strict.md): what a plan says (``plan``), a step
on its grid (``one_step``, S3), products and windows (``grid_law`` on ``masses``, S4), the last sum (S5), the
proof. There is no float in it: a test sees to that. Coq has checked Sections S1 to S5: a program that is
extracted from that proof computes the same integers (docs/trust.md).
"""

from evr._kernel.strict.last_sum import halves as halves
from evr._kernel.strict.plan import CurvePlan as CurvePlan
from evr._kernel.strict.plan import Grid as Grid
from evr._kernel.strict.plan import NestedPlan as NestedPlan
from evr._kernel.strict.plan import ProofPlan as ProofPlan
from evr._kernel.strict.plan import SelectionPlan as SelectionPlan
from evr._kernel.strict.plan import StatedProof as StatedProof
from evr._kernel.strict.plan import Window as Window
from evr._kernel.strict.plan import schedule as schedule
from evr._kernel.strict.proof import Plans as Plans
from evr._kernel.strict.proof import Proof as Proof
from evr._kernel.strict.proof import prove as prove
from evr._kernel.strict.proof import prove_curve as prove_curve
from evr._kernel.strict.proof import prove_within as prove_within
from evr._kernel.strict.proof import rounded_up as rounded_up
