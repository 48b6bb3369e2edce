"""Every row of the table of meanings against its model."""
from __future__ import annotations
import time
from evr.mechanisms.meaning import rows
from evr.mechanisms.relations import name_of, Refused
from models import mechanisms
from models.rows import check_row, tightness
