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
