// What arrays cannot do on a GPU: random numbers by place, and the recursion of b-min-sep sampling.
// NumPy does the same in evr/sampling/philox.py and evr/laws/patterns/min_sep.py; the proofs are in
// docs/guarantees_highdim.md, Section 7.1.

typedef unsigned int word;
typedef unsigned long long word64;
typedef long long whole;

#define ROW                                                       \
  const whole row = blockIdx.x * (whole)blockDim.x + threadIdx.x; \
  if (row >= rows) return;
#define AT(i) ((whole)(i) * rows + row)

// Philox 4x32-10: the two words of 64 bits of `calls` calls from `first` on, at (call, sample, part,
// block), for each sample.
extern "C" __global__ void words(word rows, word calls, word first, word part, word block, word key0,
                                 word key1, const whole *samples, word64 *one, word64 *other) {
  ROW
  word a = first + (word)(row % calls), b = (word)samples[row / calls], c = part, d = block;
#pragma unroll
  for (int i = 0; i < 10; ++i) {
    const word64 left = (word64)a * 0xD2511F53u, right = (word64)c * 0xCD9E8D57u;
    a = (word)(right >> 32) ^ b ^ key0;
    c = (word)(left >> 32) ^ d ^ key1;
    b = (word)right;
    d = (word)left;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  one[row] = a | ((word64)b << 32);
  other[row] = c | ((word64)d << 32);
}

// What is not a number stays that: fmax and fmin would lose it.
__device__ __forceinline__ double log_add(double a, double b) {
  const double high = a < b ? b : a, low = a < b ? a : b;
  return high == low ? high + log(2.0) : high + log1p(exp(low - high));
}

// log of the expectation over b-min-sep patterns of the product of e^{scale x - halves} at their
// steps (Chain.log_sum); row `row` has coordinate `i` at x[i * rows + row]. In logarithms where a
// factor, or a value, is beyond what floats square.
extern "C" __global__ void chain_sum(word rows, int steps, int separation, double probability,
                                     int warm, const double *x, double scale, const double *halves,
                                     double *ring, double *found) {
  ROW
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
