"""Step 1 of EVR: estimate ``(epsilon, delta)`` near-exactly."""

from evr._accounting.accountants import FFTAccountant as FFTAccountant
from evr._accounting.accountants import StrictAccountant as StrictAccountant
from evr._accounting.api import estimate_delta as estimate_delta
from evr._accounting.api import estimate_epsilon as estimate_epsilon
from evr._accounting.api import privacy_curve as privacy_curve
from evr._accounting.calibration import Calibration as Calibration
from evr._accounting.calibration import calibrate as calibrate
from evr._accounting.enclosing import enclose_delta as enclose_delta
from evr._accounting.enclosing import enclose_epsilon as enclose_epsilon
from evr._accounting.online import online_epsilon as online_epsilon
from evr._estimate.results import Enclosure as Enclosure
from evr._estimate.results import Estimate as Estimate
from evr._estimate.results import OnlineEpsilon as OnlineEpsilon
from evr._estimate.results import PrivacyCurve as PrivacyCurve
from evr._estimate.results import UpperBound as UpperBound
