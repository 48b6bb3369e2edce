"""Step 3, release: let out what was verified, count every attempt, and stay within a budget."""

from evr._release.budget import Account, Budget
from evr._release.filters import PrivacyFilter
from evr._release.gate import Release, release, resume
from evr._release.journal import Spending
from evr._release.ledger import Ledger

__all__ = ["Account", "Budget", "Ledger", "PrivacyFilter", "Release", "Spending", "release", "resume"]
