"""From ``DpEvent`` trees to compositions of laws, with one descriptor for each mechanism."""

from evr.mechanisms.composition import Composition as Composition
from evr.mechanisms.composition import leaves as leaves
from evr.mechanisms.descriptor import Mechanism as Mechanism
from evr.mechanisms.registry import MECHANISMS as MECHANISMS
