"""The names of the package, each with its home. ``__init__.py`` reads them from here, and loads them when used."""

from evr import accounting as accounting
from evr import budgets as budgets
from evr import certificates as certificates
from evr import errors as errors
from evr import events as events
from evr import integrations as integrations
from evr import proving as proving
from evr import types as types
from evr._accounting import Estimate as Estimate
from evr._accounting import FFTAccountant as FFTAccountant
from evr._accounting import StrictAccountant as StrictAccountant
from evr._accounting import UpperBound as UpperBound
from evr._accounting import calibrate as calibrate
from evr._accounting import enclose_delta as enclose_delta
from evr._accounting import enclose_epsilon as enclose_epsilon
from evr._accounting import estimate_delta as estimate_delta
from evr._accounting import estimate_epsilon as estimate_epsilon
from evr._accounting import online_epsilon as online_epsilon
from evr._accounting import privacy_curve as privacy_curve
from evr._certificate.certificate import Certificate as Certificate
from evr._certificate.replay import replay as replay
from evr._described import register as register
from evr._dpsgd import dpsgd as dpsgd
from evr._kernel.verdict.results import Guarantee as Guarantee
from evr._kernel.verdict.results import Verification as Verification
from evr._proving.api import verify as verify
from evr._proving.audit import audit as audit
from evr._proving.refuting import refute as refute
from evr._proving.risk import risk as risk
from evr._records import Record as Record
from evr._records import record as record
from evr._release.budget import Budget as Budget
from evr._release.gate import certify as certify
from evr._release.gate import release as release
from evr._release.gate import resume as resume
from evr._release.ledger import Ledger as Ledger
from evr._spec import load as load
from evr._sweeps import sweep as sweep
from evr._tuning import tuning as tuning

__version__: str
__all__: list[str]
