"""Privacy losses and their laws: what a guarantee is about, before any event or estimate."""

from evr.laws.law import Direction as Direction
from evr.laws.law import Floats as Floats
from evr.laws.law import LossLaw as LossLaw
from evr.laws.line.discrete import TRIVIAL_PAIR as TRIVIAL_PAIR
from evr.laws.line.discrete import DiscretePair as DiscretePair
from evr.laws.line.pair import DominatingPair as DominatingPair
from evr.laws.line.pair import Measure as Measure
from evr.laws.line.pair import line_pair as line_pair
from evr.laws.line.poisson import finite_part as finite_part
from evr.laws.line.poisson import outcomes as outcomes
from evr.laws.steps import NON_PRIVATE_PAIR as NON_PRIVATE_PAIR
from evr.laws.steps import Pairs as Pairs
from evr.laws.steps import Step as Step
from evr.laws.steps import check_agreement as check_agreement
from evr.laws.steps import finite_losses as finite_losses
from evr.laws.steps import greatest_loss as greatest_loss
from evr.laws.steps import infinite_loss_mass as infinite_loss_mass
from evr.laws.steps import infinite_mass as infinite_mass
from evr.laws.steps import is_cut as is_cut
from evr.laws.steps import loss_range as loss_range
from evr.laws.steps import merged as merged
from evr.laws.steps import on_a_line as on_a_line
from evr.laws.steps import simplify as simplify
