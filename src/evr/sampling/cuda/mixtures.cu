// What draws laws in many dimensions on a GPU: coordinates of rows (a copy of a law in a sample
// each), their likelihood ratios and densities. Row `row` of a launch is coordinate `i` at x[i *
// rows + row], so that threads next to each other read numbers next to each other. Products with
// matrices are left to cuBLAS. evr/sampling/placed_parts.py draws the same in NumPy;
// docs/guarantees_highdim.md, Section 7, has the proofs.
//
// Parts of a row's numbers: 0, normal coordinates in pairs; 1 and 2, choices; 3 + i, what
// coordinate i draws by itself.

#define ROWS word key0, word key1, word block, int rows, int samples, int count, word first
#define ROW_ONLY                                                \
  const whole row = blockIdx.x * (whole)blockDim.x + threadIdx.x; \
  if (row >= rows) return;
#define ROW                                                     \
  ROW_ONLY                                                      \
  const Place place = {key0, key1, block};                      \
  const word id = (word)((first + row % samples) * count + row / samples);
#define AT(i) ((whole)(i) * rows + row)

#define MOST_REPLICAS 40  // evr.bounds.replica_tables
#define INFINITE __longlong_as_double(0x7ff0000000000000LL)

// How many of `size` rising numbers are at most u.
__device__ __forceinline__ int not_above(const double *numbers, int size, double u) {
  int low = 0, high = size;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (numbers[middle] <= u) low = middle + 1;
    else high = middle;
  }
  return low;
}

__device__ __forceinline__ int whole_below(double u, int size) {  // u in [0, 1)
  const int found = (int)(u * size);
  return found < size ? found : size - 1;
}

extern "C" __global__ void choose(ROWS, int size, const double *cumulated, int *chosen) {
  ROW
  chosen[row] = not_above(cumulated, size - 1, unit(philox(place, 0, id, 1).a));
}

extern "C" __global__ void coordinates(ROWS, int dimension, double scale, double *x) {
  ROW
  for (int i = 0; i < dimension; i += 2) {
    const Normals z = normals(philox(place, i / 2, id, 0));
    x[AT(i)] = scale * z.one;
    if (i + 1 < dimension) x[AT(i + 1)] = scale * z.other;
  }
}

// --- where the normal law of a row has its mean ---------------------------------------------------

// A row of a table: one of `size`, each with its chance, or all with the same.
extern "C" __global__ void add_table(ROWS, const int *chosen, const unsigned char *uses, int size,
                                     int even, const double *cumulated, int columns,
                                     const double *table, double *x) {
  ROW
  if (!uses[chosen[row % samples]]) return;
  int k = 0;
  if (size > 1) {
    const double u = unit(philox(place, 0, id, 1).a);
    k = even ? whole_below(u, size) : not_above(cumulated, size - 1, u);
  }
  for (int i = 0; i < columns; ++i) x[AT(i)] += table[(whole)k * columns + i];
}

// Replicas in a ring of bins, from a table of the weights of what may follow (RingTable). Some draws
// are refused; their samples count for nothing.
extern "C" __global__ void add_ring(ROWS, const int *chosen, const unsigned char *uses, int bins,
                                    int near, int order, int start, int states, const int *next,
                                    const double *weights, const double *values,
                                    const double *staying, const int *left, const double *gram,
                                    const double *greatest, unsigned char *refused, double *x) {
  ROW
  if (!uses[chosen[row % samples]]) return;
  const int length = bins - near + 1;
  int where[MOST_REPLICAS], number[MOST_REPLICAS], events = 0, state = start;
  for (int at = 0; at < length; ++at) {
    const double u = unit(philox(place, at, id, 1).a);
    const int *after = next + (whole)state * (order + 1);
    if (u < staying[(whole)at * states + state]) {
      state = after[0];
      continue;
    }
    const double *weight = weights + (whole)state * (order + 1);
    const double *value = values + (whole)(at + 1) * states;
    double total = 0.0, sum = weight[0] * value[after[0]];
    for (int j = 0; j <= order; ++j) total += weight[j] * value[after[j]];
    int taken = 1;
    for (; taken < order; ++taken) {
      sum += weight[taken] * value[after[taken]];
      if (u * total < sum) break;
    }
    where[events] = at;
    number[events++] = taken;
    state = after[taken];
    if (left[state] == 0) break;
  }
  const int turn = whole_below(unit(philox(place, 0, id, 2).a), bins) + near - 1;
  double lost = 0.0;
  for (int e = 0; e < events; ++e) {
    const int at = (turn + where[e]) % bins;
    const double *own = gram + (whole)at * bins, n = number[e];
    lost += (greatest[0] - own[at]) * n * (n - 1.0) / 2.0;
    for (int f = 0; f < e; ++f) {
      const int lag = where[e] - where[f];
      const double most = lag < near ? greatest[lag] : 0.0;
      lost += (most - own[(turn + where[f]) % bins]) * n * number[f];
    }
    for (int d = 1 - near; d < near; ++d) {
      const int i = (at + d + bins) % bins;
      x[AT(i)] += n * own[i];
    }
  }
  if (!(unit(philox(place, 1, id, 2).a) < exp(-fmax(lost, 0.0)))) refused[row % samples] = 1;
}

// b-min-sep patterns: who takes part when, by the gaps between.
extern "C" __global__ void chain_gaps(ROWS, const int *chosen, const unsigned char *uses, int steps,
                                      int separation, double probability, int warm,
                                      unsigned char *pulses) {
  ROW
  if (!uses[chosen[row % samples]]) return;
  const int most = (steps + separation - 1) / separation;
  whole at = -1;
  if (warm && separation > 1) {
    const double late = (separation - 1) * probability / (1.0 + (separation - 1) * probability);
    if (unit(philox(place, probability == 1.0 ? 1 : most + 1, id, 1).a) < late)
      at += 1 + whole_below(unit(philox(place, probability == 1.0 ? 0 : most, id, 1).a),
                            separation - 1);
  }
  const double gap = 1.0 / log1p(-probability);
  for (int i = 0; i < most; ++i) {
    double number = 1.0;
    if (probability != 1.0)
      number = floor(log1p(-fine_uniform(philox(place, i, id, 1).a)) * gap) + 1.0;
    at += (number < steps + 1.0 ? (whole)number : steps + 1) + (i > 0 ? separation - 1 : 0);
    if (at >= steps) return;
    pulses[AT(at)] = 1;
  }
}

// Replicas of b-min-sep patterns, from a table (ChainTable).
extern "C" __global__ void chain_table(ROWS, const int *chosen, const unsigned char *uses, int steps,
                                       int bands, int order, int states, const double *starts,
                                       const int *next, const double *chances,
                                       const double *recent, const double *overlaps,
                                       const double *values, const double *staying,
                                       unsigned char *pulses) {
  ROW
  if (!uses[chosen[row % samples]]) return;
  const double start = unit(philox(place, 0, id, 1).a) * starts[states - 1];
  int state = not_above(starts, states - 1, start);
  for (int at = 0; at < steps; ++at) {
    const double u = unit(philox(place, at + 1, id, 1).a);
    const int *after = next + (whole)state * (order + 1);
    if (u < staying[(whole)at * states + state]) {
      state = after[0];
      continue;
    }
    const double *chance = chances + (whole)state * (order + 1);
    const double *value = values + (whole)(at + 1) * states;
    double pull = 0.0;
    for (int d = 1; d < bands; ++d)
      pull += recent[(whole)state * (bands - 1) + d - 1] * overlaps[(whole)d * steps + at];
    double total = 0.0, sum = 0.0, weight[MOST_REPLICAS + 1];
    for (int j = 0; j <= order; ++j) {  // more than are eligible: exp may be no float
      weight[j] = chance[j] == 0.0 ? 0.0
                                   : chance[j] * exp(pull * j + j * (j - 1) / 2 * overlaps[at]) *
                                         value[after[j]];
      total += weight[j];
    }
    sum = weight[0];
    int taken = 1;
    for (; taken < order; ++taken) {
      sum += weight[taken];
      if (u * total < sum) break;
    }
    pulses[AT(at)] = (unsigned char)taken;
    state = after[taken];
  }
}

// The mean that pulses make, times what the row's component scales them by.
extern "C" __global__ void add_pulses(int rows, int samples, const int *chosen,
                                      const double *amounts, int steps, int bands,
                                      const double *band, const unsigned char *pulses, double *x) {
  ROW_ONLY
  const double amount = amounts[chosen[row % samples]];
  if (amount == 0.0) return;
  for (int i = 0; i < steps; ++i) {
    double sum = 0.0;
    for (int lag = 0; lag < bands && lag <= i; ++lag)
      sum += band[(whole)lag * steps + i - lag] * pulses[AT(i - lag)];
    x[AT(i)] += amount * sum;
  }
}

// --- ratios and densities -------------------------------------------------------------------------

// log of the mean of e^{scale x - halves}.
extern "C" __global__ void mean_exp(int rows, int dimension, const double *x, double scale,
                                    const double *halves, double *found) {
  ROW_ONLY
  double top = -INFINITE, sum = 0.0;
  for (int i = 0; i < dimension; ++i) top = fmax(top, scale * x[AT(i)] - halves[i]);
  for (int i = 0; i < dimension; ++i) sum += exp(scale * x[AT(i)] - halves[i] - top);
  found[row] = top + log(sum / dimension);
}

extern "C" __global__ void linear(int rows, int dimension, const double *x, const double *weights,
                                  double *found) {
  ROW_ONLY
  double sum = 0.0;
  for (int i = 0; i < dimension; ++i) sum += weights[i] * x[AT(i)];
  found[row] = sum;
}

__device__ __forceinline__ double whole_power(double x, int power) {
  double found = 1.0;
  for (;; x *= x) {
    if (power & 1) found *= x;
    power >>= 1;
    if (!power) return found;
  }
}

// log of the mean, over places of a ring, of the power of the mean of e^{x - halves} over all bins
// but `left_out` before it. No term is ever taken off.
extern "C" __global__ void ring_powers(int rows, int bins, int left_out, int power, const double *x,
                                       const double *halves, double *sums, double *found) {
  ROW_ONLY
#define RATIO(i) exp(x[AT(i)] - halves[i] - top)
  const int length = bins - left_out;
  double top = -INFINITE, run = 0.0, mean = 0.0;
  for (int i = 0; i < bins; ++i) top = fmax(top, x[AT(i)] - halves[i]);
  for (int i = bins - 1; i >= left_out; --i) sums[AT(i)] = run += RATIO(i);
  mean += whole_power(run / length, power);  // from left_out on to the last
  run = 0.0;
  for (int i = left_out - 1; i >= 0; --i) sums[AT(i)] = run += RATIO(i);
  run = 0.0;
  for (int i = left_out; i < length; ++i) run += RATIO(i);
  for (int i = 0; i < left_out; ++i) {  // up to left_out, and beyond
    mean += whole_power((sums[AT(i)] + run) / length, power);
    run += RATIO(i + length);
  }
  run = 0.0;
  for (int i = left_out + 1; i < bins; ++i) {  // to the last, and on from the first
    run += RATIO(i - left_out - 1);
    mean += whole_power((sums[AT(i)] + run) / length, power);
  }
  found[row] = log(mean / bins) + power * top;
#undef RATIO
}

// What is not a number stays that: fmax and fmin would lose it.
__device__ __forceinline__ double log_add(double a, double b) {
  const double high = a < b ? b : a, low = a < b ? a : b;
  return high == low ? high + log(2.0) : high + log1p(exp(low - high));
}

// log of the expectation over b-min-sep patterns of the product of e^{scale x - halves} at their
// steps (Chain.log_sum). In logarithms where a factor, or a value, is beyond what floats square.
extern "C" __global__ void chain_sum(int rows, int steps, int separation, double probability,
                                     int warm, const double *x, double scale, const double *halves,
                                     double *ring, double *found) {
  ROW_ONLY
  const int b = separation;
  const double p = probability, log_p = log(p), log_rest = log1p(-p);
  double steepest = 0.0, scaled = 0.0;
  for (int i = 0; i < steps; ++i) steepest = fmax(steepest, scale * x[AT(i)]);
  bool steep = steepest > 300.0;
  double last = steep ? 0.0 : 1.0;
  for (int i = 0; i < b; ++i) ring[AT(i)] = last;
  for (int i = steps - 1, slot = i % b; i >= 0; --i, slot = slot ? slot - 1 : b - 1) {
    const double exponent = scale * x[AT(i)] - halves[i], own = ring[AT(slot)];
    last = steep ? log_add(log_rest + last, log_p + exponent + own)
                 : (1.0 - p) * last + p * exp(exponent) * own;
    ring[AT(slot)] = last;
    if (slot == 0 && !steep) {
      double top = last, least = last;
      for (int k = 1; k < b; ++k) top = fmax(top, ring[AT(k)]), least = fmin(least, ring[AT(k)]);
      if (least < 1e-150) {  // once more from the last step, in logarithms
        steep = true;
        last = 0.0;
        for (int k = 0; k < b; ++k) ring[AT(k)] = last;
        i = steps;
        slot = steps % b;
        continue;
      }
      for (int k = 0; k < b; ++k) ring[AT(k)] /= top;
      last = ring[row];
      scaled += log(top);
    }
  }
  if (steep) {
    double top = ring[row];
    if (warm)
      for (int k = 1; k < b; ++k) top = fmax(top, ring[AT(k)]);
    for (int k = 0; k < b; ++k) ring[AT(k)] = exp(ring[AT(k)] - top);
    scaled = top;
  }
  double sum = ring[row];
  if (warm) {
    double others = 0.0;
    for (int k = 1; k < b; ++k) others += ring[AT(k)];
    sum = (sum + p * others) / (1.0 + (b - 1) * p);
  }
  found[row] = scaled + log(sum);
}

// Sums over the copies of a law in each sample.
extern "C" __global__ void add_copies(int rows, int count, const double *each, double *found) {
  ROW_ONLY
  Total total = {0.0, 0.0};
  for (int k = 0; k < count; ++k) total.add(each[AT(k)]);
  found[row] += total.sum;
}

// What samples lose, and the logarithm of what their weights are divided by. A draw that was refused
// has no weight, whatever is lost on a line; what is not a number stays that, and stops the run.
extern "C" __global__ void settle(int rows, int components, const double *log_weights,
                                  const double *densities, const double *lost,
                                  const double *log_null, const unsigned char *refused,
                                  double *losses, double *heights) {
  ROW_ONLY
  if (refused[row]) {
    heights[row] = INFINITE;
    return;
  }
  double top = -INFINITE, sum = 0.0;
  for (int c = 0; c < components; ++c) top = fmax(top, densities[AT(c)] + log_weights[c]);
  for (int c = 0; c < components; ++c) sum += exp(densities[AT(c)] + log_weights[c] - top);
  losses[row] += lost[row];
  heights[row] += top + log(sum) - log_null[row];
}
