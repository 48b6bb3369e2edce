// What draws steps on a line on a GPU: sums over the steps of samples, and sums over samples. The
// samplers *_philox draw the same in NumPy. docs/guarantees.md, Section 6.9, says what is assumed of
// the functions used here.
//
// Parts of a sample's numbers: 0, its steps in pairs; 1, events (a rare step each); 2 + 2 i, what
// event i draws; 3 + 2 s, what step s draws anew.

// A normal component, cut to an interval. How it is drawn: 0, drawn until it is inside; 1 and 2,
// from an exponential law beyond `near` (upwards, downwards), kept with probability e^{-x^2/2};
// 3, from a uniform law, kept in proportion to the density.
struct Component { double mean, low, high, slope, offset, how, near, reach; };

__device__ __noinline__ double cut_normal(const Component &c, const Place &place, word sample, word part) {
  for (word call = 0;; ++call) {
    const Two x = philox(place, call, sample, part);
    if (c.how == 0.0) {
      const double z = normals(x).one;
      if (z > c.low && z <= c.high) return z;
    } else if (c.how == 3.0) {
      const double z = c.low + (c.high - c.low) * uniform(x.a);
      if (uniform(x.b) <= exp(-0.5 * z * z)) return z;
    } else {
      const double beyond = -log1p(uniform(x.a) * c.reach) / c.near;
      if (uniform(x.b) <= exp(-0.5 * beyond * beyond))
        return c.how == 1.0 ? c.near + beyond : -(c.near + beyond);
    }
  }
}

struct Mixture {
  double mu, scale, absent;        // a step at t has the ratio absent + e^{mu t + scale}
  double low, high;                // of mu t + scale: the main piece
  double gap;                      // 1 / log(1 - chance of an event), 0 if there are none
  Component main;
  double together;                 // pairs of steps whose ratios are multiplied
  double others;
};

extern "C" __global__ void mixture(word key0, word key1, word block, int samples, int count,
                                   const Mixture *about, const Component *others,
                                   const double *cumulated, double *losses, double *heights) {
  const Place place = {key0, key1, block};
  const word sample = blockIdx.x * blockDim.x + threadIdx.x;
  if (sample >= samples) return;
  const Mixture m = *about;
  Total main = {0.0, 0.0}, rare = {0.0, 0.0}, raised = {0.0, 0.0};
  int events = 0;
  if (m.gap != 0.0) {
    double at = 0.0;
    for (;;) {
      const Two x = philox(place, events, sample, 1);
      at += floor(log1p(-fine_uniform(x.a)) * m.gap) + 1.0;
      if (!(at <= count)) break;
      const double u = uniform(x.b);
      int k = 0;
      while (k < (int)m.others - 1 && cumulated[k] < u) ++k;
      const Component c = others[k];
      const double t = c.mean + cut_normal(c, place, sample, 2 + 2 * events);
      const double loss = log(m.absent + exp(m.mu * t + m.scale));
      rare.add(loss);
      raised.add(c.slope * loss + c.offset);
      ++events;
    }
  }
  const int steps = count - events;
  const double shift = m.mu * m.main.mean + m.scale;
  double product = 1.0;
  int left = (int)m.together;
  for (int pair = 0; 2 * pair < steps; ++pair) {
    const Normals z = normals(philox(place, pair, sample, 0));
    double one = m.mu * z.one + shift, other = m.mu * z.other + shift;
    if (one > m.high || one <= m.low)
      one = m.mu * cut_normal(m.main, place, sample, 3 + 4 * pair) + shift;
    product *= m.absent + exp(one);
    if (2 * pair + 1 < steps) {
      if (other > m.high || other <= m.low)
        other = m.mu * cut_normal(m.main, place, sample, 5 + 4 * pair) + shift;
      product *= m.absent + exp(other);
    }
    if (--left == 0) {
      main.add(log(product));
      product = 1.0;
      left = (int)m.together;
    }
  }
  main.add(log(product));
  losses[sample] += main.sum + rare.sum;
  heights[sample] += m.main.slope * main.sum + m.main.offset * steps + raised.sum;
}

struct Envelope {
  double mu, slope, log_scale, absent;  // at z the ratio Q / P is absent + e^{log_scale - mu z}
  double least, capped;                 // of a ratio in a height; whether it matters
  double order, level, at_bound;        // of the gap, and of its bound
  double steepness, together;
};

__device__ __forceinline__ bool refused(const Envelope &e, double z, double ratio, double u) {
  const double gap = e.level + e.slope * z + e.order * log(fmax(ratio, e.least));
  return u < -expm1(-gap);
}

// The ratio at a draw that is kept, for step `step` whose first draw is given.
__device__ __forceinline__ double kept(const Envelope &e, double z, word64 bits, const Place &place,
                                       word sample, word step) {
  double ratio = e.absent + exp(e.log_scale - e.mu * z);
  const double lead = (double)(bits & 2047u);
  const double bound = e.at_bound + e.slope * z + e.steepness * fmax(ratio, e.least);
  if (!(lead < bound * 2048.0)) return ratio;
  const word part = 3 + 2 * step;
  double u = (lead + uniform(philox(place, 0, sample, part).a)) * (1.0 / 2048.0);
  for (word call = 1; refused(e, z, ratio, u); call += 2) {
    z = normals(philox(place, call, sample, part)).one;
    ratio = e.absent + exp(e.log_scale - e.mu * z);
    u = uniform(philox(place, call + 1, sample, part).a);
  }
  return ratio;
}

extern "C" __global__ void envelope(word key0, word key1, word block, int samples, int count,
                                    const Envelope *about, double *losses, double *heights) {
  const Place place = {key0, key1, block};
  const word sample = blockIdx.x * blockDim.x + threadIdx.x;
  if (sample >= samples) return;
  const Envelope e = *about;
  Total plain = {0.0, 0.0}, capped = {0.0, 0.0};
  double product = 1.0, of_capped = 1.0;
  int left = (int)e.together;
  for (int pair = 0; 2 * pair < count; ++pair) {
    const Two x = philox(place, pair, sample, 0);
    const Normals z = normals(x);
    const double one = kept(e, z.one, x.a, place, sample, 2 * pair);
    product *= one;
    of_capped *= fmax(one, e.least);
    if (2 * pair + 1 < count) {
      const double other = kept(e, z.other, x.b, place, sample, 2 * pair + 1);
      product *= other;
      of_capped *= fmax(other, e.least);
    }
    if (--left == 0) {
      plain.add(log(product));
      if (e.capped != 0.0) capped.add(log(of_capped));
      product = of_capped = 1.0;
      left = (int)e.together;
    }
  }
  plain.add(log(product));
  if (e.capped != 0.0) capped.add(log(of_capped));
  losses[sample] -= plain.sum;
  heights[sample] -= e.order * (e.capped != 0.0 ? capped.sum : plain.sum);
}

// Outcomes: the leading bits of a word of 32 choose a slot, the others decide between its two
// outcomes; in a tie 32 more do. Losses are whole multiples of a unit, so their sums are exact;
// heights are slope times loss, and for outcomes from `first` on what `rests` adds.
struct Table {
  const word *slot;      // the other outcome, and the leading bits of the slot's own share
  const whole *value;
  const word *ties;      // the share's other bits
  const whole *rests;
  int lead, first;
};

__device__ __forceinline__ void look_up(const Table &t, word x, const Place &place, word sample,
                                        word step, whole &sum, whole &beyond) {
  const word mask = ((word)1 << t.lead) - 1, own = x >> t.lead, found = t.slot[own];
  bool other = (x & mask) >= (found & mask);
  if ((x & mask) == (found & mask))
    other = (word)philox(place, 0, sample, 3 + 2 * step).a >= t.ties[own];
  const int i = (int)(other ? found >> t.lead : own);
  sum += t.value[i];
  if (i >= t.first) beyond += t.rests[i];
}

extern "C" __global__ void outcomes(word key0, word key1, word block, int samples, int count,
                                    int bits, int first, double unit, double slope,
                                    double rest_unit, const word *slots, const word *ties,
                                    const whole *values, const whole *rests, double *losses,
                                    double *heights) {
  const Place place = {key0, key1, block};
  const int EACH = 8192;  // steps after which a sum is turned into a float
#ifdef __CUDACC__
  extern __shared__ word64 memory[];
#else
  word64 *memory = shared_memory;
#endif
  const int size = 1 << bits;
  whole *value = (whole *)memory;
  word *slot = (word *)(memory + size);
  for (int i = threadIdx.x; i < size; i += blockDim.x) {
    slot[i] = slots[i];
    value[i] = values[i];
  }
  __syncthreads();
  const Table table = {slot, value, ties, rests, 32 - bits, first};
  for (word sample = blockIdx.x * blockDim.x + threadIdx.x; sample < samples;
       sample += gridDim.x * blockDim.x) {
    Total loss = {0.0, 0.0}, height = {0.0, 0.0};
    for (int start = 0; start < count; start += EACH) {
      const int end = count - start < EACH ? count : start + EACH;
      whole sum = 0, beyond = 0;
      int step = start;
      for (; step + 3 < end; step += 4) {
        const Two x = philox(place, step / 4, sample, 0);
        look_up(table, (word)x.a, place, sample, step, sum, beyond);
        look_up(table, (word)(x.a >> 32), place, sample, step + 1, sum, beyond);
        look_up(table, (word)x.b, place, sample, step + 2, sum, beyond);
        look_up(table, (word)(x.b >> 32), place, sample, step + 3, sum, beyond);
      }
      if (step < end) {
        const Two x = philox(place, step / 4, sample, 0);
        const word words[3] = {(word)x.a, (word)(x.a >> 32), (word)x.b};
        for (int i = 0; step < end; ++step, ++i)
          look_up(table, words[i], place, sample, step, sum, beyond);
      }
      loss.add((double)sum * unit);
      height.add((double)beyond * rest_unit);
    }
    losses[sample] += loss.sum;
    heights[sample] += slope * loss.sum + height.sum;
  }
}

// Sums over samples, CHUNK of them for each row of `sums`: of the samples, their squares, the same
// clipped, the growth of log wealth, and the greatest; in an order that is always the same.
#define CHUNK 1024
#define COLUMNS 6
#define BINS 43

extern "C" __global__ void summarise(double epsilon, double log_weight, double infinite, double clip,
                                     double mean, double stake, int samples, const double *losses,
                                     const double *heights, double *sums, word64 *histogram) {
#ifdef __CUDACC__
  __shared__ double table[COLUMNS * 256];
  __shared__ word64 bins[BINS];
#else
  double table[COLUMNS * 256];
  word64 bins[BINS];
#endif
  for (int i = threadIdx.x; i < BINS; i += blockDim.x) bins[i] = 0;
  __syncthreads();
  double own[COLUMNS] = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0};
  const int start = blockIdx.x * CHUNK, end = start + CHUNK < samples ? start + CHUNK : samples;
  for (int sample = start + threadIdx.x; sample < end; sample += blockDim.x) {
    const double loss = losses[sample];
    double value = 0.0;
    if (!(loss <= epsilon)) {  // what is not a number must not pass for 0, nor for 700
      const double log_value = log_weight - heights[sample];
      value = -expm1(epsilon - loss) * exp(log_value > 700.0 ? 700.0 : log_value);
    }
    value += infinite;
    const double clipped = fmin(value, clip);
    own[0] += value;
    own[1] += value * value;
    own[2] += clipped;
    own[3] += clipped * clipped;
    if (stake > 0.0) own[4] += log1p(stake * (mean - clipped));
    if (!(value <= own[5])) own[5] = value;
    int bin = 0;
    if (value > 0.0) {
      const double place = floor((log10(value) + 6.0) * 4.0) + 2.0;
      bin = place < 1.0 ? 1 : place > BINS - 1.0 ? BINS - 1 : (int)place;
    }
    atomicAdd(&bins[bin], (word64)1);
  }
  for (int c = 0; c < COLUMNS; ++c) table[c * 256 + threadIdx.x] = own[c];
  __syncthreads();
  for (int width = blockDim.x / 2; width > 0; width /= 2) {
    if (threadIdx.x < width)
      for (int c = 0; c < COLUMNS; ++c) {
        double *at = table + c * 256 + threadIdx.x;
        const double other = at[width];
        if (c < COLUMNS - 1) at[0] += other;
        else if (!(other <= at[0])) at[0] = other;
      }
    __syncthreads();
  }
  for (int c = threadIdx.x; c < COLUMNS; c += blockDim.x)
    sums[blockIdx.x * COLUMNS + c] = table[c * 256];
  for (int i = threadIdx.x; i < BINS; i += blockDim.x)
    if (bins[i]) atomicAdd(&histogram[i], bins[i]);
}
