"""Step 3, release: let out what was verified, count every attempt, and stay within a budget."""

from evr._release.account import Account as Account
from evr._release.budget import Budget as Budget
from evr._release.filters import PrivacyFilter as PrivacyFilter
from evr._release.gate import Release as Release
from evr._release.gate import release as release
from evr._release.gate import resume as resume
from evr._release.journal import Spending as Spending
from evr._release.ledger import Ledger as Ledger
