"""Fixtures that the rooms of certificates, releases and words share."""

from fixtures import _tuned_once as _tuned_once
from fixtures import delta as delta
from fixtures import gaussian as gaussian
from fixtures import ledger as ledger
