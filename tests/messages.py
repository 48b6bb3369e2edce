"""The wording of errors and warnings that tests rely on, each in one place: regular expressions, named after the rule
that they state, and functions where a value is part of the message.

A test that only asks which argument was refused says ``given(epsilon=-1)`` or ``about("epsilon")``.
"""

from __future__ import annotations

import re
from typing import Any

# --- arguments (evr._basics.validate) ---------------------------------------------------------------------


def given(**values: Any) -> str:
    """Arguments as errors repeat them."""
    return ".*".join(re.escape(f"{name}={value!r}") for name, value in values.items())


def about(*words: str) -> str:
    """Names that the message must say, in this order."""
    return ".*".join(map(re.escape, words))


def of_any_value(name: str, rule: str) -> str:
    """Whatever the value is, the argument breaks this rule."""
    return f"{name}=.* {rule}"


def not_one_of(*known: str, **values: Any) -> str:
    return f"{given(**values)} is not one of {', '.join(map(repr, known))}"


def no_number(value: Any) -> str:
    return f"is not a(n integer| number).*a {type(value).__name__}"


NOT_A_FUNCTION = "is not a function"
NOT_A_FILE_NAME = "is not the name of a file"
NOT_A_DP_EVENT = "is not a DpEvent"
NOT_A_SUBCLASS = "is not a subclass of DpEvent"
NOT_A_VALID_NUMBER = r"mechanism\[0\]\.scales: input should be a valid number \(found 'x'\)"
NOT_CALLABLE = "mechanism=.* is not a function"
NO_GENERATOR = "a generator or a coroutine"
NO_SUCH_PART = "of a part|no affordable table|there are none"
NO_TRUTH_VALUE = "no truth value"
TOO_SMALL_FOR_A_FLOAT = "is too small for a float"
BELOW_ALL_FLOATS = r"is below 2\.23e-308"
EXACTLY_ONE = "exactly one"


def no_option(name: str) -> str:
    return f"takes no option '{name}'"


def unexpected_argument(name: str) -> str:
    return f"unexpected keyword argument '{name}'"


# --- events and mechanisms ------------------------------------------------------------------------

NOT_A_KNOWN_EVENT = "is not a known event"
REGISTER_IT = "OwnDpEvent is not a known event: register it"
NOT_MADE_BY_ATTRS = "PlainDpEvent is not a known event: .* attrs"
RETURN_PAIRS = "TrainingDpEvent at event returned None: .* return Pairs"
TRANSLATOR_IS_NO_FUNCTION = "translator=None is not a function"
KIND_IS_TAKEN = "kind='gaussian' is taken by GaussianDpEvent: give GaussianDpEvent another"
INSIDE_A_REPEATED_EVENT = r"at event\.events\[1\] .*SelfComposedDpEvent"
IN_THE_SECOND_EVENT = r"at event\.events\[1\]: "
COUNT_IS_TOO_LARGE = r"count=\d+ is too large.*event\.event"
KNOWN_EVENTS = "unsupported UnsupportedDpEvent at event: .*GaussianDpEvent"
MY_VARIANT = r"docs/guide/my_variant\.md says what to give"
MEANT_GAUSSIAN = r"did you mean 'gaussian'\?$"
TWO_PARTS = "another record may be in another part, and then two parts change; .*add-or-remove"
NAMES_NO_TREE = "names no tree"
BATCH_ABOVE_DATASET = "sample_size=10 is above source_dataset_size=9"
TRUNCATED_BATCHES = "truncates batches at 64"
LIMITED_PARTICIPATION = "total_participations=3 and correlated noise"
TAKES_A_PLACE = "under zero-out the empty record takes a place.*neighboring_relation='add-or-remove'"
OF_ONE_GROUP = "cycle_length=10: each record has the turns of one group only"
FIXED_GROUPS = "fixed groups take turns.*neighboring_relation='zero-out'"
NOISE_SEED = r"noise_seed=42: whoever knows the seed knows the noise.*\(None\)"
CALIBRATE_FIRST = r"no noise_multiplier: calibrate\(\) it first"
DIVIDE_THE_STRATEGY = "norm 5: versions .* differ in the noise. Divide the strategy by its norm"
GIVE_THE_ENGINE = r"would go unseen: give evr.record\(..., engine=engine\)"
BEFORE_ANYTHING_ITERATES = "after step 0: .* record before anything iterates over the loader"
IS_FINISHED = "the record is finished.*with 10 steps.*new=True.*resume=True"
OBSERVED_LOADER = r"DPDataLoader was not observed from the start.*observed\(loader\)"
NUMBERS_OF_LABELS = "different numbers of labels.*compute_loss_func="
GIVE_THE_CONFIGURATION = "give the configuration that makes it"
STATES_ITS_NOISE = "says its noise and its strategy itself"
NOISE_IS_MISSING = "does not say how much noise was added"
FROM_JAX_PRIVACY = r"of JAX Privacy at event is not a DpEvent: give evr.events.from_jax_privacy\(config\)"
NEGATIVE_STRATEGY = r"mechanism\[0\].*strategy\[1\]=-1.0 is negative"
SCALE_BOTH = "scale strategy and noise by one number"
STATES_WHO_TAKES_PART = "says itself who takes part"
NOISE_OF_EACH_CLIENT = "sigma=0.4 of each of clients=10 is too small.*Scale the values up"
WHOLE_EPOCHS = r"over 2\.5 epochs: each record is in a whole number of batches"
RECORDS_PER_USER_OF_POISSON = "records_per_user=3 is for sampling='poisson'"
ONE_RECORD_MORE = "'shuffled': with one record more.*RedrawnBinsDpEvent"
ONE_USER = "one user"
ONE_UNIT = "a guarantee has one unit"
WEIGHTS_SUM_TO_1 = "sampling_probs=.* does not sum to 1, but to .*: divide by that sum"
ADDITIVE_NOISE = "additive noise"
USERS_OF_A_GAUSSIAN = "UsersDpEvent of GaussianDpEvent"
NEEDS_RECORDS_PER_USER = "needs records_per_user"


def unsupported(event: Any) -> str:
    return f"unsupported {type(event).__name__} at event"


# --- neighbouring relations -----------------------------------------------------------------------

KNOWN_RELATIONS = "neighboring_relation=.*'add-or-remove', 'replace-one'"
ADD_OR_REMOVE_HERE = "'add-or-remove' adjacency here.*'zero-out'"
NOT_A_RELATION = "was registered with is not a NeighboringRelation"
SAMPLED_ALREADY = "says itself who takes part|nor made on a sample"
ZERO_OUT_BY_ITSELF = "no law under 'zero-out'.*No relation was asked for"
ANOTHER_ANSWER = "--adjacency replace-one.*another answer"
READ_ONCE = "events=.* can be read only once: give a list"
FOR_REPLACE_ONE = "for replace-one adjacency"
CYCLIC_HAS_NO_LAW = "CyclicPoissonDpEvent has no law under 'add"
HAS_ONE_UNDER_REPLACE_ONE = "has one under 'replace-one'"


def under(relation: str) -> str:
    return f"is under '{relation}'"


def no_law_under(relation: str, remedy: str = "") -> str:
    return f"no law under '{relation}'" + (f".*'{remedy}'" if remedy else "")


def adjacency(remedy: str) -> str:
    return f"--adjacency {remedy}"


# --- specifications -------------------------------------------------------------------------------

KNOWN_KINDS = "unknown kind 'alarm'; known: dpsgd, gaussian, laplace"
UNKNOWN_KIND = "unknown kind 'alarm'"
UNKNOWN_KEY = "sampling_probability: unknown key"
FIELD_IS_AN_EVENT = "'wrap' cannot be written here: its field 'inner' is declared as DpEvent.*fields="
CLASS_IS_NOT_MADE_BY_ATTRS = "'plain' cannot be written here: PlainDpEvent is not made by attrs"
ONE_TABLE = r"^\[mechanism\] is one table.*write \[\[mechanism\]\]$"
NO_MECHANISM = r"^no mechanism is described: write what ran in a table \[\[mechanism\]\]"
PROBABILITY_IS_NO_NUMBER = r"sampling_probability: .*number \(found '"

# --- exact laws and strict proofs -----------------------------------------------------------------

ALL_OF_BOTH_LAWS = "of [PQ], or a negative mass: together they must hold all of P and of Q"
NEGATIVE_MASS = "has a negative mass: give a curve that is convex"
NOT_EXACTLY_ONE = "not exactly 1: give Fractions"
OTHER_LENGTHS = "2 and 1 entries"
NO_FLOATS = "Own has no law in floats, .*: register one"
NO_LAW = "is not a law: give an exact law"
INFINITE_MASS = r"infinite=.* is not in \[0, 2\^8\]"
TOO_LARGE_FOR_EXACT_ARITHMETIC = "too large for exact arithmetic"
NO_FINITE_ENCLOSURE = "no finite enclosure"
TOO_NEAR = "the places of the plan are too near for its bits"
FEWER_GRIDS = "need 1 and"
ONE_STEP_ALONE = "a plan without grids serves one step alone"
NO_GRID_HOLDS_IT = "exact proof of this would need .*: claim a greater delta or a smaller epsilon"
WIDER_SPACING = "a wider spacing is wanted"
TOO_LARGE_A_PROOF = "a proof file of this is too large: .*: claim a little more, or leave the proof file out"
NO_TEXT = "a training in shuffled batches .* cannot be stated in a proof file"
MORE_CELLS = "more than 100 cells"
USE_STRICT = "method='strict'"
BAD_SELECTION = "selection|plan"


def no_exact_law(law: str = "") -> str:
    return f"{law}.*offers no exact law"


def selections(of_plan: int, of_steps: int) -> str:
    return f"has {of_plan} selections, and the steps have {of_steps}"


# --- estimates ------------------------------------------------------------------------------------

NO_TARGET = "no target: give epsilon and delta; or advantage; or true_positive_rate and false_positive_rate"
A_GUESS_DOES_AS_WELL = "a guess does as well, whatever the noise"
RISK_WITH_NOISE = "would follow from .* or this risk with noise_multiplier={}$"
MISSES_THE_TARGET = "every parameter tried from 1 to 2 misses the target"
MEETS_THE_TARGET = "meets"
SMALLER_EPSILON = r"losses up to 1,0\d\d: a smaller epsilon"
NO_PAIR_ON_A_LINE = "no pair on a line"
BINS_HAVE_NO_PAIR = "2 bins.*no pair on a line"
GIVE_THE_LEAST_DELTA = "is below 1e-250, .* give 1e-250, which covers it"
DELTA_TO_TRACK = "delta to track"
NO_STEP_RAN = "empty composition: no step ran"
LARGE_ERROR = "with an error of"
LARGE_ERROR_AT_A_HUGE_EPSILON = r"epsilon=1e\+17: delta would be 0\.738 with an error of"
TOO_MANY_OVERLAPS = "overlaps: give fewer bands"
TOO_MANY_REPORTS = "1000000000 steps with every=1 are .* reports.*every="
NO_EPSILON_IS_ENOUGH = "no epsilon lets delta=1e-06 be verified, .* fail with a chance of 0.001: claim delta=0.00102"


def too_many_changes(count: int) -> str:
    return f"count={count} at event repeats 2 changes"


# --- plans and samples ----------------------------------------------------------------------------

BAD_TILT = "tilt|floor"
FLOOR_ABOVE_CAP = "the floor is above the cap"
ORDER_OF_A_TILT = "the order is 0, or finite and at least"
ONE_TILT = "3 kinds of steps that are composed have one tilt"
KINDS_OF_STEPS = "kinds of steps"
SPREAD_IT = "a plan spreads it to finitely many outcomes"
FLOATS_CANNOT_TELL = "floats cannot tell"
PRODUCTS_ARE_MISSING = "products: these steps need"
TOO_MANY_PLACES = "128 are the most"
NO_OUTCOMES = "no outcomes"
NO_PLACES = "have no places"
MANY_STEPS_SHARE_THE_LOSS = "many steps share the loss"
NEITHER = "neither"
NOTHING_BESIDE = "with nothing beside, not 1"
BELOW_FLOATS = "below all floats"
NO_AFFORDABLE_TABLE = "order=41 has no affordable table"
SAMPLE_IS_NAN = "a sample is nan"
ABOVE_ITS_BOUND = "its proved bound"
BAD_LAW_OF_RUNS = "which law|needs both|below 1"


def share_out_of_range(share: float) -> str:
    return f"share={share} is not between 0 and 1"


# --- verification ---------------------------------------------------------------------------------

LOSSES_ARE_KNOWN_TO_WITHIN = "floats know total losses of this composition to within"
FLOATS_KNOW_LOSSES = "floats know total losses"
GREATEST_IS_EPSILON_WITHIN_ROUNDING = "to within rounding, the greatest loss is epsilon"
GREATEST_IS_EPSILON = "the greatest loss is epsilon, and floats cannot tell"
COMPARES_EXACTLY = "or use method='strict', which compares exactly"
ROUNDING_OF_STEPS = "rounding over 20 steps .* lower tau"
LOSSES_OR_ROUNDING = "floats know total losses|rounding over .* steps may be as large as"
LOWER_TAU = "floats know total losses .* lower tau|no useful bound|would take about .* samples"
FIXED_LOWER_TAU = "would take about .* lower tau|rounding over .* lower tau"
FIXED_NEEDS_SAMPLES = "max_samples=1000 is below the .* samples .*nu = .*, Delta = "
TOO_MANY_SAMPLES = "would take about .* samples"
OUT_OF_FLOATS = "out of the range of floats"
SAMPLES_OF_A_PROOF = "max_samples=10 belongs to methods that sample"
COMES_OUT_OF = "comes out of"
MADE_BY_VERIFY = r"made by evr\.verify"
BLOCKS_DIFFER_IN_SIZE = r"block 1 with \d+ samples .* \d+ samples of block 0"
POOL_DOES_NOT_WORK = "does not work: A child process terminated"
ANOTHER_DEVICE = "begun with device='cpu', and device='auto' is another one here"
LEAST_CLAIM = "below 1e-05, the least that this release may claim"
STRICT_DISAGREES = "the strict proof shows the claim and the sampled one does not"
SAMPLES_DISAGREE = "the sampled proof shows the claim and the strict one does not"
NOTHING_IS_CERTIFIED = "nothing is certified"
THIS_IS_FALSE = "this is false"
THIS_WOULD_HOLD = "this is false.*would hold"
TRUE_BY_TOO_LITTLE = "true by too little to be verified.*delta=0.0102 at this epsilon would hold"
NO_ROOM_AT_ANY_EPSILON = "no epsilon lets delta=0.01 be verified.*claim delta=0.0102 or more"
TRUE_BY_TOO_LITTLE = "true by too little to be verified"


def too_many_samples_unless(remedy: str) -> str:
    return f"{TOO_MANY_SAMPLES}.*{remedy}"


# --- devices and clusters -------------------------------------------------------------------------

NO_GPU = "no NVIDIA GPU"
NO_GPU_BUT = "no NVIDIA GPU.*device='cpu' or 'auto'"
KNOWN_DEVICES = "device='gpu'.*auto"
TOO_MANY_EQUAL_LAWS = "up to 4,096 equal laws.*device='cpu'"
USE_THE_PROCESSOR = "device='cpu'"
LAW_ON_A_LINE = "a law on a line"
WORKER_OF_OTHER_SOFTWARE = "worker tcp://.* draws with .*numpy"
JOINED_WITH_OTHER_SOFTWARE = "that joined draws with .*numpy"
NO_WORKER = "has no worker"

# --- certificates and their replay ----------------------------------------------------------------

CANNOT_BE_READ = "cannot be read"
NOT_UTF8 = "not UTF-8"
NOT_A_CERTIFICATE_NAME = "certificate=3 is not the name of a file"
REJECTED = "rejected"
DIGEST = "digest"
TOO_LARGE_A_FILE = "larger than 32 MiB"
ABOVE_THE_LIMIT = "more than the limit of"
ABOVE_THE_LIMIT_BUT = "more than the limit of .*--max-seconds"
UNKNOWN_NOTE = r"record\.notes\.0='all is well' is not as evr writes it"
NOT_OF_DPSGD = "not that of DP-SGD"


def took_longer_than(seconds: str) -> str:
    return f"more than {seconds} s"


def software_of(key: str) -> str:
    return f"software.{key}"


def status(word: str) -> str:
    return f"^{word}: "


# --- ledgers and files ----------------------------------------------------------------------------

DAMAGED = "the ledger is damaged"
CANNOT_BE_USED = "cannot be used"
NO_LEDGER = "there is no ledger"
NOT_A_DATABASE = "not a database"
OTHER_PROGRAM = "those of another program"
HARD_LINKS = "2 hard links"
REPLACED_FILE = "replaced|2 hard links|cannot be used"
FILE_OR_SERVER = "a ledger is a file, or postgresql://"
SERVER_CANNOT_BE_USED = r"^postgresql://ann:\*\*\*@nowhere\.invalid/evr: .*cannot be used"
NEEDS_POSTGRES = r"pip install 'evr-dp\[postgres\]'"
FSYNC_IS_OFF = "fsync is off"
DISK_IS_FULL = "disk is full"
NO_SPACE_LEFT = "No space left"
NO_SPACE_FOR_THE_CERTIFICATE = r"No space left on device: .*c\.json"
CANNOT_BE_WRITTEN_THERE = r"path=.*c\.json' cannot be written"
NOT_A_NAME = "is not a name"
NEITHER_NAME_NOR_NUMBER = "is neither a name nor a number"
ENTROPY_WAS_USED = "entropy 0x7 was used before in this release"
NOTHING_WAS_INTERRUPTED = "no verification was interrupted"
BEGUN_WITH_OTHER_SOFTWARE = r"was begun with numpy .* and this is 9\.9\.9"
TAKEN_OVER = "taken over"
TAKEN_OVER_BY_ANOTHER = "was taken over by another process"
BELOW_THE_NAMED_CLAIM = "below 1e-07, .*'thesis'"
BEGUN_UNDER_ANOTHER_RELATION = "'mine' was begun per record under add-or-remove, and this is per record under"


def schema_version(found: int, ours: int) -> str:
    return f"schema version {found}, and this evr uses {ours}"


def network_file_system(kind: str) -> str:
    return rf"lies on a network file system \({kind}\).*postgresql://HOST/DATABASE"


# --- releases and budgets -------------------------------------------------------------------------

NOTHING_WAS_RELEASED = "nothing was released"
ONE_OUTPUT = "let out its one output"
ONE_OUTPUT_OF_THE_SECOND_PAPER = "release 'second paper' let out its one output"
NOT_ACCEPTED = "was not accepted"
FIRST_WAS_NOT_ACCEPTED = "attempt 1 was not accepted"
NOTHING_WAS_SPENT = "nothing was spent"
WHAT_WOULD_FIT = r"99\.3% is used\. What would fit: 1,351 steps instead of 3,516, or"
STEPS_THAT_FIT = "2,128 steps instead of 3,516"
ANOTHER_EVENT = "another event"
BUDGET_IS_THERE = "there is a budget 'data' already"
NO_BUDGET = r"there is no budget 'dat' \(budgets here: 'data'\)"
CONSTANTS_BEFORE_THE_TRAINING = "give the recorder these constants before the training"
TAKEN_BACK = "spent was taken back: start another attempt"
NO_SPENDING_TO_TAKE_BACK = r"no spending 1 to take back: give one of none"
OUTPUT_MAY_HAVE_GONE_OUT = "has run its mechanism, whose output may have gone out: it stays"
STILL_BEING_MADE = "which is still being made: it stays"
RECORDED_TRAINING_RAN = "is of a recorded training, which ran"
BUDGET_IS_CLOSED = "budget 'data' was closed at .* by vision: nothing is spent or taken back"
NOT_A_LINE = "is not a line of text"
BUDGET_UNDER_ANOTHER_RELATION = "but budget 'data' is under 'zero-out'"
LIES_ELSEWHERE = "lies elsewhere"
WOULD_USE = "would use .* of which .* is spent"
WOULD_USE_ALL = "would use inf of the budget"
NO_PROVED_MOMENTS = "no moments of ExactMixture.* are proved"

# --- records of trainings -------------------------------------------------------------------------

NOT_WHAT_WAS_WRITTEN = "not what was written"
DO_NOT_PRINT = "characters that do not print"
NOT_FINISHED = "not finished"
OTHER_RECORD = "after 5 steps of another record, or of this one before lines were lost"
NOISE_IS_KNOWN = "after step 1: the noise is known"
FINITE_NUMBERS = "finite numbers"
CLOSED = "closed"
NOT_A_RECORD = "not a record"
CANNOT_BE_WRITTEN = "cannot be written"
BEING_WRITTEN = "being written already"
LOAD_ALL_RANKS = "rank 1 of 2: load all"
RANKS_ARE_MISSING = "of 2 processes there are records of 0"
OTHER_RANK = "begun with .'rank': 0, .* and .'rank': 1, "
CHANGED_SINCE = "changed since it was read"
OF_ANOTHER_EVENT = "of another event"
NUMBER_IS_PRIVATE = "keeps the number of records private"
MUST_BE_CONSTANT = r"the number of records included; this record does not say so\. Certify under"
CONTINUE_WITH_THE_SAME = "continue it with the same"
DIVISOR_AFTER_THE_START = r"after step 0: the divisor was 19\.0"
NOT_WHAT_IS_ACCOUNTED_FOR = "what ran is not what is accounted for: at the start"
EMPTY_BATCH = "empty batch"
EMPTY_BATCH_WAS_DROPPED = "an empty batch was dropped"
OTHER_RECORD_OF_TEN = "after 10 steps of another record"
ACCOUNTANT_COUNTED_MORE = "the accountant has counted 10 steps, and the record holds 0"
OPTIMIZER_IS_NOT_RECORDED = "SGD is not recorded: give the optimizer"
NO_BATCH_SAMPLER = "list has no batch sampler"
SENSITIVITY_IS_MISSING = "sensitivity= is missing"


def ranks_differ(words: str) -> str:
    return f"ranks 0 and 1 differ in {words}"


def other_number_of_steps(steps: int) -> str:
    return f"{steps} steps ran, and the constant is 5"


# --- what tests themselves raise ------------------------------------------------------------------

MEAN = "mean"
THE_MEAN_IS = "the mean is"
BOUND_IS = "B is"
ABOVE_THE_STATED_BOUND = "above the stated bound"
KOLMOGOROV = "Kolmogorov"
OUT_OF_NUMBERS = "out of numbers"
DISK_OF_THE_RESULTS = "disk of the results"
FULL = "full"
WORKER_DIED = "the worker died"

# --- refutations ----------------------------------------------------------------------------------
ABOUT_A_REFUTATION = (
    "Refuted: delta at epsilon 0.5 is at least 2.05",
    "for some training of this description, on some pair of neighbours",
    "all steps' outputs are taken to be released",
    "The mathematics of lower bounds is on paper",
)
REFUTATION_FILE = (
    "delta is greater than",
    "Answer: refuted for DP-SGD.",
    "It says nothing about one training. The mathematics is on paper",
)
NOT_REFUTED_BY_FILE = "the file would not refute the claim: direction remove: delta of 37 x .*; refute a smaller delta"
FOR_THE_PAIR_ONLY = "for the pair by which evr bounds this mechanism"
NO_LOWER_BOUND = "Selection has no lower bound"
NO_LOWER_BOUND_BY_THIS_PLAN = "no lower bound by this plan"
PROVED_FALSE = (
    r"this is false, for delta\(0.5\) is at least 2.05.*e-10 for some training of this description, as is proved"
)
ABOUT_FALSE = r"this seems to be false, for delta\(4.0\) is about"
IS_REFUTED = "is refuted by"
UNSUPPORTED_AT = r"unsupported \w+ at event"
ONE_RELATION = "describe all under one relation"
GROUPED = "grouped to the safe side"
NO_PROOF_FILE_OF_A_GROUP = "a group of nearly equal steps cannot be stated in a proof file"
UNREADABLE_PROOF = "unreadable"
NOT_ONE_OF = "is not one of"
