"""From ``DpEvent`` trees to compositions of laws, with one descriptor for each mechanism."""

from evr.mechanisms.composition import Composition
from evr.mechanisms.descriptor import Mechanism
from evr.mechanisms.registry import MECHANISMS
from evr.mechanisms.tree import leaves

__all__ = ["MECHANISMS", "Composition", "Mechanism", "leaves"]
