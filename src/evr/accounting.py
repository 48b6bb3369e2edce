"""Step 1, estimate: near-exact numbers, proved bounds on both sides, whole curves, the noise for a target."""

from evr._accounting import Calibration as Calibration
from evr._accounting import Enclosure as Enclosure
from evr._accounting import Estimate as Estimate
from evr._accounting import FFTAccountant as FFTAccountant
from evr._accounting import OnlineEpsilon as OnlineEpsilon
from evr._accounting import PrivacyCurve as PrivacyCurve
from evr._accounting import StrictAccountant as StrictAccountant
from evr._accounting import UpperBound as UpperBound
from evr._accounting import calibrate as calibrate
from evr._accounting import enclose_delta as enclose_delta
from evr._accounting import enclose_epsilon as enclose_epsilon
from evr._accounting import estimate_delta as estimate_delta
from evr._accounting import estimate_epsilon as estimate_epsilon
from evr._accounting import online_epsilon as online_epsilon
from evr._accounting import privacy_curve as privacy_curve
from evr._accounting.comparison import compare as compare
from evr._sweeps import Sweep as Sweep
from evr._sweeps import sweep as sweep
