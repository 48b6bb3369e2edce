// Random numbers by place: Philox 4x32-10, a call at (call, sample, part, block), so that
// evr/sampling/philox.py draws the same in NumPy. Compiled before sums.cu and mixtures.cu.

typedef unsigned int word;
typedef unsigned long long word64;
typedef long long whole;

struct Place { word key0, key1, block; };
struct Two { word64 a, b; };
struct Normals { double one, other; };

__device__ __forceinline__ Two philox(const Place &place, word call, word sample, word part) {
  word a = call, b = sample, c = part, d = place.block, k0 = place.key0, k1 = place.key1;
#pragma unroll
  for (int i = 0; i < 10; ++i) {
    const word64 one = (word64)a * 0xD2511F53u, other = (word64)c * 0xCD9E8D57u;
    a = (word)(other >> 32) ^ b ^ k0;
    c = (word)(one >> 32) ^ d ^ k1;
    b = (word)other;
    d = (word)one;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  Two found = {a | ((word64)b << 32), c | ((word64)d << 32)};
  return found;
}

__device__ __forceinline__ double uniform(word64 x) {  // in (0, 1]
  return ((double)(x >> 11) + 1.0) * 0x1p-53;
}

__device__ __forceinline__ double unit(word64 x) {  // in [0, 1)
  return (double)(x >> 11) * 0x1p-53;
}

__device__ __forceinline__ double fine_uniform(word64 x) {  // in (0, 1], fine where it is small
  return ((double)x + 0.5) * 0x1p-64;
}

__device__ __forceinline__ Normals normals(const Two &x) {  // Box and Muller
  const double radius = sqrt(-2.0 * log(uniform(x.a)));
  double sine, cosine;
  sincospi(2.0 * ((double)(x.b >> 11) * 0x1p-53), &sine, &cosine);
  Normals found = {radius * cosine, radius * sine};
  return found;
}

// A sum whose rounding does not grow with the number of terms (Kahan).
struct Total {
  double sum, lost;
  __device__ void add(double x) {
    const double y = x - lost, t = sum + y;
    lost = (t - sum) - y;
    sum = t;
  }
};
