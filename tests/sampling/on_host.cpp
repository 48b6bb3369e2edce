#include "on_host.hpp"
#include STEPS

extern "C" {
void host_mixture(word k0, word k1, word b, int samples, int count, const Mixture *about,
                  const Component *others, const double *cumulated, double *losses,
                  double *heights) {
  for (blockIdx.x = 0; blockIdx.x < (word)samples; ++blockIdx.x)
    mixture(k0, k1, b, samples, count, about, others, cumulated, losses, heights);
}
void host_envelope(word k0, word k1, word b, int samples, int count, const Envelope *about,
                   double *losses, double *heights) {
  for (blockIdx.x = 0; blockIdx.x < (word)samples; ++blockIdx.x)
    envelope(k0, k1, b, samples, count, about, losses, heights);
}
void host_outcomes(word k0, word k1, word b, int samples, int count, int bits, int first,
                   double unit, double slope, double rest_unit, const word *slots, const word *ties,
                   const whole *values, const whole *rests, double *losses, double *heights) {
  blockIdx.x = 0;
  outcomes(k0, k1, b, samples, count, bits, first, unit, slope, rest_unit, slots, ties, values, rests,
           losses, heights);
}
void host_summarise(double epsilon, double log_weight, double infinite, double clip, double mean,
                    double stake, int samples, const double *losses, const double *heights,
                    double *sums, word64 *histogram) {
  for (blockIdx.x = 0; blockIdx.x * CHUNK < (word)samples; ++blockIdx.x)
    summarise(epsilon, log_weight, infinite, clip, mean, stake, samples, losses, heights, sums,
              histogram);
}
}

extern "C" double host_total(double x, int times) {
  Total total = {0.0, 0.0};
  for (int i = 0; i < times; ++i) total.add(x);
  return total.sum;
}
