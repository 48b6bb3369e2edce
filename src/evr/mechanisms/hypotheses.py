"""What statements assume of whoever ran a mechanism: each hypothesis once, with the id by which files refer to it.

A sentence is a clause that follows "It is assumed that". An id is never given to another hypothesis. Why each of them
is needed is shown in docs/guarantees_relations.md, Section R9, or where the theorem of its row is proved.
"""

import re

from dp_accounting import NeighboringRelation

from evr.mechanisms.relations import Hypothesis, name_of

_SENTENCES = """
sensitivity: what one record adds to a sum is at most the sensitivity (or clipping norm) that the noise is stated for,
    and depends on that record and on earlier outputs only, not on other records or on the size of the batch as drawn
random-sensitivity: what one record adds to a sum is at most a sensitivity that was drawn with the stated
    probabilities, for each record independently of all others, and depends on that record and on earlier outputs only
integers: the values were integers, and the sensitivity bounds what a record adds to them after all rounding
known-private: what is known to be private by itself is so under the adjacency stated
known-zcdp: what is known to be zCDP is so under the adjacency stated, in both directions
exponential-choice: each choice was made with probabilities proportional to e^(epsilon score / (2 sensitivity)), or
    with Gumbel noise of that scale (without the 2 for monotone scores, and not under replace-one)
score-sensitivity: the sensitivity of the scores is that under the adjacency stated, and does not depend on the data
empty-as-absent: an empty record leaves the law of the output as if it were absent
empty-record-answers: a record that was emptied still answers, uniformly at random

poisson: each record was in each batch independently with the stated probability (Poisson sampling, not shuffled
    batches)
constant-rate-and-steps: the sampling probability, the number of steps and the divisor of the sums did not depend on
    the data, the number of records included
constant-rate-and-steps-zero-out: the number of records is public, and the sampling probability, the number of steps
    and the divisor of the sums depended on the data through it alone
constant-rate-and-steps-replace-one: the sampling probability, the number of steps and the divisor of the sums depended
    on the data through the number of records alone
scalar-noise: noise that is sampled and not Gaussian was added to one number, to which a record adds between minus and
    plus the sensitivity if it is in the batch, and nothing if not
without-replacement: each batch was a uniformly random set of the stated size, drawn anew for each step (not shuffled
    batches)
batch-by-itself: what was sampled is private for every batch as a data set of its own, in which any record may take the
    place of another, and its output does not show which records were in the batch
truncated-batches: each record was sampled independently with the stated probability, and of a batch that was too large
    a uniformly random part of the stated size was kept
truncated-dataset-size: the larger of two neighbouring data sets has the stated number of records

bins-drawn-once: each record was put into one bin, with equal chances and independently of all others, once for the
    whole training (not fixed-size batches of shuffled data)
bins-drawn-each-epoch: each record was put into one bin in each epoch, with equal chances and independently of all
    others and of other epochs (not fixed-size batches of shuffled data)
random-allocation: each record took part in exactly the stated number of iterations, a uniformly random set of them,
    drawn independently of all other records (not shuffled batches of a fixed size)
fixed-groups: each record was in a batch of its group's turn independently with the stated probability, and the groups
    did not depend on what the records contain
independent-groups: each record was in a batch of its group's turn independently with the stated probability, and its
    group was drawn with equal chances and independently of all others
b-min-sep: each eligible record was in a batch independently with the stated probability
separated-participation: no record took part more often, or at iterations closer to each other, than stated
others-stay: one record more or less leaves the participation of all other records as it was (not batches of a fixed
    size in a fixed or shuffled order)
participation-not-by-content: in which iterations a record took part did not depend on what the records contain
shuffled-batches: each record was in at most one batch of each epoch, and the order of the records and the sizes of the
    batches did not depend on what the records contain
one-step-of-all-trees: each record was in at most one step of all trees
own-contribution: what a record adds to a sum was clipped and depended on that record and on earlier outputs only, not
    on who else was in the batch (no truncated batches, no division by the size of the batch as drawn)
own-contribution-in-batch: what a record adds to a sum was clipped and depended on that record and on earlier outputs
    only, not on who else was in the batch

records-per-user: no user had more than the stated number of records in the data, by a rule that looked at that user
    alone
records-clipped: each record's gradient was clipped to norm 1 times the clipping norm, and depended on that record and
    on earlier outputs only; where a norm per user is stated, the sum of a user's records in a batch was clipped to it
    too
each-record-of-a-user: what is said of a record below holds for each record of a user by itself
padded-users: a user with fewer records than stated has empty ones in their places, which count as records

fresh-runs: the runs had fresh noise and batches each, and their hyper-parameters were drawn anew for each run from a
    law that does not depend on the data
scored-by-output: a run was scored by its output, and by nothing else that depends on the data
hidden-number-of-runs: the number of runs was drawn from the stated law before the first of them, and neither it nor
    the other runs nor the time that they took was shown
"""

_ENTRIES = (entry.partition(": ") for entry in re.split(r"\n+(?=\S)", _SENTENCES.strip()))
HYPOTHESES = {id: Hypothesis(id, " ".join(sentence.split())) for id, _, sentence in _ENTRIES}
"""Every hypothesis by its id, those of registered mechanisms included."""


def assumed(ids: str, relation: NeighboringRelation) -> tuple[Hypothesis, ...]:
    """Hypotheses by their ids, with spaces between them, in the wording for the relation where there is one."""
    return tuple(HYPOTHESES.get(f"{id}-{name_of(relation)}") or HYPOTHESES[id] for id in ids.split())
