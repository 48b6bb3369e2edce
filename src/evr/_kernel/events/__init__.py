"""From ``DpEvent`` trees to compositions of laws, with one descriptor for each mechanism."""

from evr._kernel.events.composition import Composition as Composition
from evr._kernel.events.registry import MECHANISMS as MECHANISMS
from evr._kernel.events.relations import Mechanism as Mechanism
