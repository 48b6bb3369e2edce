"""From ``DpEvent`` trees to compositions of laws, with one descriptor for each mechanism.

A new mechanism is an event class and a translator from an event to its ``Pairs``, or to an event that stands
for it. Users register both (``table.registered``). One of evr's is a class in ``schemes.py``, a function in
``noise.py``, ``training.py`` or ``users.py``, and a row of ``meanings.md``: under each relation a theorem and
its hypotheses, or why it is refused. A law that is not there yet is an ``ExactOutcomes`` (its ``sets``) or an
``ExactCurve`` (its ``curve``, and its floats in ``pairs/floats.py``).
"""

from evr._kernel.events.composition import Composition as Composition
from evr._kernel.events.registry import MECHANISMS as MECHANISMS
from evr._kernel.events.relations import Mechanism as Mechanism
