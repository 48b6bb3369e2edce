// Stands for CUDA where there is none: one thread after the other, so that its sources run on a
// processor. Enough to compare their numbers with NumPy's.
#include <cmath>
#include <cstring>

#define __device__
#define __global__
#define __forceinline__ inline
#define __noinline__
#define __syncthreads()

struct Index { unsigned int x; };
static Index blockIdx, threadIdx, blockDim = {1}, gridDim = {1};
static unsigned long long shared_memory[2 << 14];

using std::exp;
using std::expm1;
using std::fabs;
using std::floor;
using std::fmax;
using std::fmin;
using std::log;
using std::log10;
using std::log1p;
using std::sqrt;

static void sincospi(double x, double *sine, double *cosine) {
  *sine = (double)sinl(3.14159265358979323846L * x);
  *cosine = (double)cosl(3.14159265358979323846L * x);
}

static double __longlong_as_double(long long bits) {
  double found;
  memcpy(&found, &bits, sizeof found);
  return found;
}

static void atomicAdd(unsigned long long *at, unsigned long long x) { *at += x; }
