"""What is accounted: ``DpEvent`` trees as compositions of laws, one descriptor for each mechanism."""

from evr.mechanisms.composition import Composition, timeline
from evr.mechanisms.descriptor import Mechanism
from evr.mechanisms.registry import MECHANISMS, register

__all__ = ["MECHANISMS", "Composition", "Mechanism", "register", "timeline"]
