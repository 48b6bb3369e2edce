// What arrays cannot do on a GPU, or only in many passes over memory: random numbers by place, draws of replicas, means of
// exponentials, and the recursion of b-min-sep sampling. NumPy does the same in evr/_kernel/sampled/philox.py and mixtures.py,
// evr/_kernel/sampled/replica_tables.py and evr/_kernel/pairs/patterns; the proofs are in docs/guarantees_highdim.md, Section 7.1.

typedef unsigned int word;
typedef unsigned long long word64;
typedef long long whole;

#define ROW                                                       \
  const whole row = blockIdx.x * (whole)blockDim.x + threadIdx.x; \
  if (row >= rows) return;
#define AT(i) ((whole)(i) * rows + row)

// Philox 4x32-10: the two words of 64 bits of a call, at (call, sample, part, block).
struct Place {
  word part, block, key0, key1;
  __device__ __forceinline__ void words(word call, word sample, word64 &one, word64 &other) const {
    word a = call, b = sample, c = part, d = block, first = key0, second = key1;
#pragma unroll
    for (int i = 0; i < 10; ++i) {
      const word64 left = (word64)a * 0xD2511F53u, right = (word64)c * 0xCD9E8D57u;
      a = (word)(right >> 32) ^ b ^ first;
      c = (word)(left >> 32) ^ d ^ second;
      b = (word)right;
      d = (word)left;
      first += 0x9E3779B9u;
      second += 0xBB67AE85u;
    }
    one = a | ((word64)b << 32);
    other = c | ((word64)d << 32);
  }
  // In [0, 1).
  __device__ __forceinline__ double unit(word call, word sample) const {
    word64 one, other;
    words(call, sample, one, other);
    return (double)(one >> 11) * 0x1p-53;
  }
};

#define NUMBERS word rows, word part, word block, word key0, word key1, const whole *samples, word call
#define PLACE const Place place = {part, block, key0, key1};

// The words of `calls` calls from `call` on, for each sample.
extern "C" __global__ void words(NUMBERS, word calls, word64 *one, word64 *other) {
  ROW PLACE
  place.words(call + (word)(row % calls), (word)samples[row / calls], one[row], other[row]);
}

// Normal numbers (Box and Muller), two from each call, for `columns` coordinates of each sample.
extern "C" __global__ void normals(NUMBERS, word calls, word columns, double *found) {
  ROW PLACE
  const word pair = (word)(row % calls);
  word64 one, other;
  place.words(call + pair, (word)samples[row / calls], one, other);
  const double radius = sqrt(-2.0 * log(((double)(one >> 11) + 1.0) * 0x1p-53));
  const double angle = 2.0 * 3.141592653589793 * ((double)(other >> 11) * 0x1p-53);
  double *at = found + row / calls * columns + 2 * pair;
  at[0] = radius * cos(angle);
  if (2 * pair + 1 < columns) at[1] = radius * sin(angle);
}

// An index above 0, by a uniform number beyond the share of index 0; sums[j] is the weight of 0 to j.
__device__ __forceinline__ int chosen(double drawn, const double *sums, int order) {
  int found = 1;
  for (int j = 1; j < order; ++j) found += drawn >= sums[j] / sums[order];
  return found;
}

#define MOST 40  // replicas

// Replicas in a ring of bins (RingTable.draw): how many are in each bin, from bin `first` on, and their attraction.
extern "C" __global__ void ring_draw(NUMBERS, int order, int near, int length, int bins, int states, int start,
                                     const whole *left, const int *next, const double *weights, const double *values,
                                     const int *unmoved, const double *greatest, const whole *first, double *occupied,
                                     double *attraction) {
  ROW PLACE
  double sums[MOST + 1], total = 0.0;
  double *own = occupied + row * bins;
  int state = start;
  for (int at = 0; left[state] > 0; ++at) {
    const double least = place.unit(call++, (word)samples[row]) * values[(whole)at * states + state];
    int low = 0, high = length - at;
    for (int size = length; size > 0; size /= 2) {
      const int middle = (low + high) / 2, after = unmoved[(whole)min(middle, near - 1) * states + state];
      const bool held = values[(whole)(at + middle) * states + after] > least;
      low = held ? middle : low;
      high = held ? high : middle;
    }
    at += low;
    state = unmoved[(whole)min(low, near - 1) * states + state];
    const int *to = next + (whole)state * (order + 1);
    sums[0] = 0.0;
    for (int j = 1; j <= order; ++j)
      sums[j] = sums[j - 1] + weights[(whole)state * (order + 1) + j] * values[(whole)(at + 1) * states + to[j]];
    const int number = chosen(place.unit(call++, (word)samples[row]), sums, order);
    total += greatest[0] * number * (number - 1) / 2;
    for (int lag = 1; lag < near && lag <= at; ++lag)
      total += greatest[lag] * number * own[(first[row] + at - lag) % bins];
    own[(first[row] + at) % bins] = number;
    state = to[number];
  }
  attraction[row] = total;
}

// Replicas of b-min-sep patterns (ChainTable.draw): how many take part in each step.
extern "C" __global__ void chain_draw(NUMBERS, int order, int near, int steps, int states, const int *start,
                                      const int *next, const double *chances, const double *values,
                                      const double *staying, const double *recent, const double *overlaps,
                                      double *pulses) {
  ROW PLACE
  double sums[MOST + 1];
  int state = start[row];
  for (int i = 0; i < steps; ++i) {
    const double drawn = place.unit(call++, (word)samples[row]);
    const int *to = next + (whole)state * (order + 1);
    int number = 0;
    if (drawn >= staying[(whole)i * states + state]) {
      double pull = 0.0, sum = 0.0;
      for (int lag = 1; lag < near; ++lag)
        pull += recent[(whole)state * (near - 1) + lag - 1] * overlaps[(whole)lag * steps + i];
      for (int j = 0; j <= order; ++j) {
        const double chance = chances[(whole)state * (order + 1) + j];
        if (chance > 0.0)
          sum += chance * exp(pull * j + j * (j - 1) / 2 * overlaps[i]) * values[(whole)(i + 1) * states + to[j]];
        sums[j] = sum;
      }
      number = chosen(drawn, sums, order);
    }
    pulses[row * steps + i] = number;
    state = to[number];
  }
}

// log of the mean, over all places of a ring, of the mean of `length` terms e^{scale x - halves} from there on, to a whole
// power, for each row of x (OrderBins.log_density; log_mean_exp where both are 1). No term is ever taken off: short
// spans are added up, and of long ones what is before and after those left out; `later` has room for the latter.
extern "C" __global__ void log_mean_power(word rows, int bins, int length, int power, double scale, const double *x,
                                          const double *halves, int apart, double *later, double *found) {
  ROW
  const double *own = x + row * bins;
  double top = scale * own[0] - halves[0], before = 0.0, after = 0.0, total = 0.0;
  for (int i = 1; i < bins; ++i) {
    const double exponent = scale * own[i] - halves[i * apart];
    top = exponent <= top ? top : exponent;  // also if it is not a number
  }
  auto term = [&](int i) { return exp(scale * own[i] - halves[i * apart] - top); };
  const int out = bins - length;
  const bool is_long = length > out;
  for (int i = bins - 1; is_long && i >= 0; --i) later[AT(i)] = after += term(i);
  for (int i = 0; i < bins; ++i) {  // a long span leaves out those from i on, a short one begins there
    double sum = 0.0;
    if (is_long && i + out <= bins) {
      sum = before + (i + out < bins ? later[AT(i + out)] : 0.0);
      before += term(i);
    } else {
      for (int k = 0, at = is_long ? i + out - bins : i; k < length; ++k, at = at + 1 < bins ? at + 1 : 0)
        sum += term(at);
    }
    double raised = 1.0, square = sum / length;
    for (int rest = power; rest; rest >>= 1, square *= square)
      if (rest & 1) raised *= square;
    total += raised;
  }
  found[row] = log(total / bins) + power * top;
}

// What is not a number stays that: fmax and fmin would lose it.
__device__ __forceinline__ double log_add(double a, double b) {
  const double high = a < b ? b : a, low = a < b ? a : b;
  return high == low ? high + log(2.0) : high + log1p(exp(low - high));
}

// log of the expectation over b-min-sep patterns of the product of e^{scale x - halves} at their steps (Chain.log_sum);
// row `row` has coordinate `i` at x[i * rows + row]. In logarithms where a factor, or a value, is beyond what floats
// square.
extern "C" __global__ void chain_sum(word rows, int steps, int b, double p, int warm, const double *x, double scale,
                                     const double *halves, double *ring, double *found) {
  ROW
  const double log_p = log(p), log_rest = log1p(-p);
  double steepest = 0.0, scaled = 0.0;
  for (int i = 0; i < steps; ++i) steepest = fmax(steepest, scale * x[AT(i)]);
  bool steep = steepest > 300.0;
  double last = steep ? 0.0 : 1.0;
  for (int i = 0; i < b; ++i) ring[AT(i)] = last;
  for (int i = steps - 1, slot = i % b; i >= 0; --i, slot = slot ? slot - 1 : b - 1) {
    const double exponent = scale * x[AT(i)] - halves[i], own = ring[AT(slot)];
    last = steep ? log_add(log_rest + last, log_p + exponent + own) : (1.0 - p) * last + p * exp(exponent) * own;
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
