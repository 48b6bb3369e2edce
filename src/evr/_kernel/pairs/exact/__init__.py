"""Laws by their exact parameters: what a strict proof encloses in balls (docs/guarantees_strict.md, Section
S6).
"""

from evr._kernel.pairs.exact.law import Ball as Ball
from evr._kernel.pairs.exact.law import ExactCurve as ExactCurve
from evr._kernel.pairs.exact.law import ExactLaw as ExactLaw
from evr._kernel.pairs.exact.law import ExactOutcomes as ExactOutcomes
from evr._kernel.pairs.exact.law import OutcomeSet as OutcomeSet
from evr._kernel.pairs.exact.line import ExactBins as ExactBins
from evr._kernel.pairs.exact.line import ExactGaussian as ExactGaussian
from evr._kernel.pairs.exact.line import ExactLabelled as ExactLabelled
from evr._kernel.pairs.exact.line import ExactLaplace as ExactLaplace
from evr._kernel.pairs.exact.line import ExactMixture as ExactMixture
from evr._kernel.pairs.exact.line import ExactShifted as ExactShifted
from evr._kernel.pairs.exact.line import ExactTwoSidedLaplace as ExactTwoSidedLaplace
from evr._kernel.pairs.exact.outcomes import NON_PRIVATE_LAW as NON_PRIVATE_LAW
from evr._kernel.pairs.exact.outcomes import ExactBoundedRange as ExactBoundedRange
from evr._kernel.pairs.exact.outcomes import ExactConcentrated as ExactConcentrated
from evr._kernel.pairs.exact.outcomes import ExactDiscreteGaussian as ExactDiscreteGaussian
from evr._kernel.pairs.exact.outcomes import ExactDiscreteLaplace as ExactDiscreteLaplace
from evr._kernel.pairs.exact.outcomes import ExactEpsilonDelta as ExactEpsilonDelta
from evr._kernel.pairs.exact.outcomes import ExactRun as ExactRun
from evr._kernel.pairs.exact.outcomes import ExactTwoSidedOutcomes as ExactTwoSidedOutcomes
from evr._kernel.pairs.exact.outcomes import RationalOutcomes as RationalOutcomes
from evr._kernel.pairs.exact.sampled import ExactEither as ExactEither
from evr._kernel.pairs.exact.sampled import ExactTruncated as ExactTruncated
from evr._kernel.pairs.exact.sampled import SampledCurve as SampledCurve
from evr._kernel.pairs.exact.sampled import SampledOutcomes as SampledOutcomes
from evr._kernel.pairs.exact.sampled import WithoutReplacementCurve as WithoutReplacementCurve
from evr._kernel.pairs.exact.sampled import WithoutReplacementOutcomes as WithoutReplacementOutcomes
from evr._kernel.pairs.exact.sampled import exact_sampled as exact_sampled
from evr._kernel.pairs.exact.sampled import exact_without_replacement as exact_without_replacement
