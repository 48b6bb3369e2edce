"""Step 2, verify: claims proved or refuted, and what a proved curve says about attackers."""

from evr._kernel.verdict.results import DirectionReport as DirectionReport
from evr._kernel.verdict.results import Guarantee as Guarantee
from evr._kernel.verdict.results import Verdict as Verdict
from evr._kernel.verdict.results import Verification as Verification
from evr._proving.api import verify as verify
from evr._proving.audit import Audit as Audit
from evr._proving.audit import audit as audit
from evr._proving.choosing import Forecast as Forecast
from evr._proving.progress import Progress as Progress
from evr._proving.refuting import Refutation as Refutation
from evr._proving.refuting import refute as refute
from evr._proving.risk import Risk as Risk
from evr._proving.risk import risk as risk
