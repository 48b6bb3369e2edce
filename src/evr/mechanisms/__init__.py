"""From ``DpEvent`` trees to compositions of laws, with one descriptor for each mechanism."""

from evr.mechanisms.composition import Composition as Composition
from evr.mechanisms.registry import MECHANISMS as MECHANISMS
from evr.mechanisms.relations import Mechanism as Mechanism
