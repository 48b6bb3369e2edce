"""Privacy losses and their laws: what a guarantee is about, before any event or estimate."""

from evr._kernel.pairs.floats import as_floats as as_floats
from evr._kernel.pairs.fold import is_non_private as is_non_private
from evr._kernel.pairs.fold import reveals_nothing as reveals_nothing
from evr._kernel.pairs.fold import simplify as simplify
from evr._kernel.pairs.law import Floats as Floats
from evr._kernel.pairs.law import LossLaw as LossLaw
from evr._kernel.pairs.line.discrete import TRIVIAL_PAIR as TRIVIAL_PAIR
from evr._kernel.pairs.line.discrete import DiscretePair as DiscretePair
from evr._kernel.pairs.line.pair import DominatingPair as DominatingPair
from evr._kernel.pairs.line.pair import Measure as Measure
from evr._kernel.pairs.line.pair import line_pair as line_pair
from evr._kernel.pairs.line.poisson import outcomes as outcomes
from evr._kernel.pairs.line.poisson import without_infinite as without_infinite
from evr._kernel.pairs.steps import Law as Law
from evr._kernel.pairs.steps import Pairs as Pairs
from evr._kernel.pairs.steps import Step as Step
from evr._kernel.pairs.steps import finite_losses as finite_losses
from evr._kernel.pairs.steps import greatest_loss as greatest_loss
from evr._kernel.pairs.steps import infinite_loss_mass as infinite_loss_mass
from evr._kernel.pairs.steps import infinite_mass as infinite_mass
from evr._kernel.pairs.steps import is_cut as is_cut
from evr._kernel.pairs.steps import loss_range as loss_range
from evr._kernel.pairs.steps import merge_equal as merge_equal
from evr._kernel.pairs.steps import on_a_line as on_a_line
from evr._kernel.pairs.steps import stated_error as stated_error
from evr.types import Direction as Direction
