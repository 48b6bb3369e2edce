// Estimates in floats: the loss of Poisson-sampled Gaussian steps, tilted, on a grid, by FFT. Nothing here is proved.
"use strict"

// log(1 - q + q e^u)
function logMix(q, u) {
  if (u < 1) return Math.log1p(q * Math.expm1(u))
  return u + Math.log(q) + Math.log1p((1 - q) / q * Math.exp(-u))
}

// One step in one direction as weighted points: losses y and log weights w, at equal distances in x
class StepLaw {
  // losses beyond the cap: delta is linear in e^-loss there, so they are put at the cap and at infinity
  constructor(q, s, up, cap = Infinity) { Object.assign(this, {q, s, up, cap}) }
  capped(cap) { return new StepLaw(this.q, this.s, this.up, cap) }
  loss(x) { const m = logMix(this.q, (2 * x - 1) / (2 * this.s * this.s)); return this.up ? m : -m }
  logp(x) {
    const a = -x * x / (2 * this.s * this.s) - Math.log(this.s * Math.sqrt(2 * Math.PI))
    return this.up ? a + logMix(this.q, (2 * x - 1) / (2 * this.s * this.s)) : a
  }
  // where the law tilted by e^(order loss) is, down to e^-depth of its greatest density, for orders from low to high
  range(low, high, depth) {
    const {s} = this, reach = 13 * s
    let a = Infinity, b = -Infinity
    for (const order of [low, high]) {
      const left = this.up ? Math.min(0, order) - reach : -Math.max(0, order) - reach
      const right = this.up ? Math.max(0, order) + 1 + reach : Math.max(0, -order) + 1 + reach
      const n = Math.min(20000, Math.ceil((right - left) / (s / 2))), step = (right - left) / n
      let top = -Infinity
      const logs = new Float64Array(n + 1)
      for (let i = 0; i <= n; i++) {
        const x = left + i * step
        const y = this.loss(x)
        logs[i] = this.logp(x) + (y > this.cap ? this.cap - y + order * this.cap : order * y)
        if (logs[i] > top) top = logs[i]
      }
      for (let i = 0; i <= n; i++) if (logs[i] > top - depth) {
        a = Math.min(a, left + (i - 1) * step); b = Math.max(b, left + (i + 1) * step)
      }
    }
    return [a, b]
  }
  points(low, high, depth, perSigma) {
    const [a, b] = this.range(low, high, depth)
    const n = Math.min(60000, Math.max(400, Math.ceil((b - a) / this.s * perSigma)))
    const step = (b - a) / n, y = new Float64Array(n + 1), w = new Float64Array(n + 1)
    let infinite = 0
    for (let i = 0; i <= n; i++) {
      const x = a + i * step, loss = this.loss(x), log = this.logp(x) + Math.log(step), over = loss - this.cap
      y[i] = over > 0 ? this.cap : loss
      w[i] = over > 0 ? log - over : log
      if (over > 0) infinite -= Math.exp(log) * Math.expm1(-over)
    }
    return {y, w, n: n + 1, infinite}
  }
}

// log E e^(order y) and the first two derivatives
function cumulants(pts, order) {
  const {y, w, n} = pts
  let top = -Infinity
  for (let i = 0; i < n; i++) { const e = w[i] + order * y[i]; if (e > top) top = e }
  let m0 = 0, m1 = 0
  for (let i = 0; i < n; i++) { const p = Math.exp(w[i] + order * y[i] - top); m0 += p; m1 += p * y[i] }
  const mean = m1 / m0
  let m2 = 0
  for (let i = 0; i < n; i++) { const p = Math.exp(w[i] + order * y[i] - top), d = y[i] - mean; m2 += p * d * d }
  return [top + Math.log(m0), mean, m2 / m0]
}
function logMoment(pts, order) {
  const {y, w, n} = pts
  let top = -Infinity, m0 = 0
  for (let i = 0; i < n; i++) { const e = w[i] + order * y[i]; if (e > top) top = e }
  for (let i = 0; i < n; i++) { const e = w[i] + order * y[i] - top; if (e > -40) m0 += Math.exp(e) }
  return top + Math.log(m0)
}

// FFT of a power of 2, in place
const fftTables = new Map()
function fft(re, im, inverse) {
  const n = re.length
  if (!fftTables.has(n)) {
    const c = new Float64Array(n / 2), s = new Float64Array(n / 2), rev = new Uint32Array(n), turn = 2 * Math.PI / n
    for (let i = 0; i < n / 2; i++) { c[i] = Math.cos(turn * i); s[i] = Math.sin(turn * i) }
    for (let i = 1; i < n; i++) rev[i] = (rev[i >> 1] >> 1) | (i & 1 ? n >> 1 : 0)
    fftTables.set(n, [c, s, rev])
  }
  const [c, s, rev] = fftTables.get(n), sign = inverse ? 1 : -1
  for (let i = 0; i < n; i++) {
    const j = rev[i]
    if (i < j) { let t = re[i]; re[i] = re[j]; re[j] = t; t = im[i]; im[i] = im[j]; im[j] = t }
  }
  for (let half = 1; half < n; half *= 2) {
    const step = n / (2 * half)
    for (let start = 0; start < n; start += 2 * half) {
      for (let k = 0, t = 0; k < half; k++, t += step) {
        const i = start + k, j = i + half, wr = c[t], wi = sign * s[t]
        const xr = re[j] * wr - im[j] * wi, xi = re[j] * wi + im[j] * wr
        re[j] = re[i] - xr; im[j] = im[i] - xi; re[i] += xr; im[i] += xi
      }
    }
  }
  if (inverse) for (let i = 0; i < n; i++) { re[i] /= n; im[i] /= n }
}

// The law of all steps under a tilt: log delta(epsilon) for epsilons near where the tilt centres the sum
class TiltedSum {
  constructor(parts, order, size, perSigma) {
    const N = size, about = parts.map(({law, k}) => {
      const pts = law.points(0, order, 60, perSigma), [K, mean, variance] = cumulants(pts, order)
      return {...pts, pts, k, K, mean, variance}
    })
    const total = f => about.reduce((sum, a) => sum + a.k * f(a), 0)
    const K = total(a => a.K), centre = total(a => a.mean), sd = Math.sqrt(total(a => a.variance))
    const infinite = -Math.expm1(total(a => Math.log1p(-a.infinite)))
    Object.assign(this, {order, K, centre, sd, infinite})
    // how far the sum is from its centre, by Chernoff's bound, for a tail of e^-34
    let up = Infinity, down = Infinity
    for (let j = -3; j < 12; j++) {
      const t = 2 ** j / sd
      up = Math.min(up, (total(a => logMoment(a.pts, order + t) - a.K) + 34) / t - centre)
      down = Math.min(down, (total(a => logMoment(a.pts, order - t) - a.K) + 34) / t + centre)
    }
    const h = (up + down) * 1.02 / N, low = Math.floor(-down / h) - 2
    const logs = new Float64Array(N), angles = new Float64Array(N)
    for (const {y, w, n, k, K, mean} of about) {
      const re = new Float64Array(N), im = new Float64Array(N)
      for (let i = 0; i < n; i++) {
        const p = Math.exp(w[i] + order * y[i] - K)
        if (!(p > 1e-22)) continue
        const place = (y[i] - mean) / h, f = Math.floor(place), u = place - f
        const at = j => (((f + j) % N) + N) % N   // cubic: mass and three moments are kept
        re[at(-1)] -= p * u * (u - 1) * (u - 2) / 6
        re[at(0)] += p * (u + 1) * (u - 1) * (u - 2) / 2
        re[at(1)] -= p * (u + 1) * u * (u - 2) / 2
        re[at(2)] += p * (u + 1) * u * (u - 1) / 6
      }
      fft(re, im, false)
      for (let i = 0; i < N; i++) {
        logs[i] += k * Math.log(re[i] * re[i] + im[i] * im[i]) / 2
        if (logs[i] > -80) angles[i] += k * Math.atan2(im[i], re[i])
      }
    }
    const re = new Float64Array(N), im = new Float64Array(N)
    for (let i = 0; i < N; i++) if (logs[i] > -80) {
      const r = Math.exp(logs[i])
      re[i] = r * Math.cos(angles[i]); im[i] = r * Math.sin(angles[i])
    }
    fft(re, im, true)
    // sums from above of t e^(-order (S - centre)) and t e^(-(order + 1)(S - centre))
    this.h = h; this.low = low; this.N = N
    this.A = new Float64Array(N + 1); this.B = new Float64Array(N + 1)
    for (let j = N - 1; j >= 0; j--) {
      const i = low + j, t = re[((i % N) + N) % N], x = i * h
      this.A[j] = this.A[j + 1] + t * Math.exp(Math.min(600, -order * x))
      this.B[j] = this.B[j + 1] + t * Math.exp(Math.min(600, -(order + 1) * x))
    }
  }
  logDelta(epsilon) {
    const x = epsilon - this.centre, place = x / this.h - this.low
    const j = Math.min(this.N, Math.max(0, Math.floor(place) + 1))
    const value = this.A[j] - Math.exp(x) * this.B[j]
    const log = value > 0 ? this.K - this.order * this.centre + Math.log(value) : -Infinity
    return this.infinite > 0 ? Math.log(this.infinite + Math.exp(log)) : log
  }
  // where log delta is the target: from the centre on, up or down
  solve(target) {
    const step = Math.max(this.sd / 8, this.h)
    let a = this.centre, b = a, i = 0
    if (this.logDelta(a) > target) { do { a = b; b += step } while (this.logDelta(b) > target && i++ < 400) }
    else { do { b = a; a -= step } while (a > 0 && this.logDelta(a) <= target && i++ < 400) }
    if (b <= 0 || (a <= 0 && this.logDelta(0) <= target)) return 0
    a = Math.max(a, 0)
    for (let i = 0; i < 50; i++) { const m = (a + b) / 2; if (this.logDelta(m) > target) a = m; else b = m }
    return b
  }
}

// One direction of a training, for deltas from one on: an epsilon that is too large, and a cap from it
class Curve {
  // phases: [{q, s, k}]
  constructor(phases, up, delta) {
    const target = Math.log(delta)
    this.parts = phases.map(({q, s, k}) => { const plain = new StepLaw(q, s, up); return {plain, law: plain, k} })
    this.sums = new Map()
    const still = this.parts.map(({plain}) => plain.points(0, 0, 70, 25))
    const moment = (order, points) => this.parts.reduce((sum, {k}, i) => sum + k * logMoment(points[i], order), 0)
    let above = Infinity, lowest = -Infinity
    for (let l = Math.log(1e-3); l < Math.log(3e5); l += 0.35) {
      const order = Math.exp(l), points = this.parts.map(({plain}) => plain.points(0, order, 40, 8))
      const bound = (moment(order, points) - target) / order
      if (bound > 1.5 * above) break
      above = Math.min(above, bound)
    }
    for (let l = Math.log(1e-3); l < Math.log(1e6); l += 0.35) {
      const order = Math.exp(l)
      lowest = Math.max(lowest, (target - 24 - moment(-order, still)) / order)
    }
    this.lowest = Math.min(0, lowest)
    this.reach(Math.max(above, 1e-9) * 1.02)
  }
  // serve epsilons up to one
  reach(above) {
    this.above = above; this.cap = above - this.lowest
    for (const part of this.parts) part.law = part.plain.capped(this.cap)
    this.sums.clear()
  }
  // of the sum of all steps
  cumulants(order) {
    const out = [0, 0, 0]
    for (const {law, k} of this.parts) {
      cumulants(law.points(0, order, 60, 12), order).forEach((x, i) => { out[i] += k * x })
    }
    return out
  }
  // where a falling function of the order is 0
  static search(f) {
    let a = Math.log(1e-4), b = a
    while (f(Math.exp(b)) > 0 && b < Math.log(1e7)) { a = b; b += 1.5 }
    for (let i = 0; i < 16; i++) { const m = (a + b) / 2; if (f(Math.exp(m)) > 0) a = m; else b = m }
    return Math.exp((a + b) / 2)
  }
  // the order that centres the tilted sum near epsilon
  orderAt(epsilon) { return Curve.search(l => epsilon + 1 / l + 1 / (l + 1) - this.cumulants(l)[1]) }
  // the order for a delta, by the saddle point
  orderFor(logDelta) {
    return Curve.search(l => {
      const [K, m, v] = this.cumulants(l), e = m - 1 / l - 1 / (l + 1)
      const c = v + 1 / (l * l) + 1 / ((l + 1) * (l + 1))
      return K - l * e - Math.log(l * (l + 1)) - 0.5 * Math.log(2 * Math.PI * c) - logDelta
    })
  }
  sum(order, size = 32768) {
    const key = order + ":" + size
    if (!this.sums.has(key)) this.sums.set(key, new TiltedSum(this.parts, order, size, this.perSigma || 400))
    return this.sums.get(key)
  }
  epsilon(delta, size = 32768) {
    const target = Math.log(delta)
    let order = this.orderFor(target), epsilon = 0
    for (let round = 0; round < 6; round++) {
      epsilon = this.sum(order, size).solve(target)
      // a nearer cap leaves less to the greatest losses
      if (epsilon > this.above || 1.1 * epsilon - this.lowest < 0.7 * this.cap) {
        this.reach(epsilon > this.above ? 3 * epsilon : 1.1 * epsilon)
        order = this.orderFor(target)
        continue
      }
      const better = this.orderAt(epsilon)
      if (Math.abs(Math.log(better / order)) < 0.3) break
      order = better
    }
    this.order = order
    return epsilon
  }
}

function estimate(phases, delta, size, perSigma) {
  const curves = [true, false].map(up => new Curve(phases, up, delta))
  for (const curve of curves) curve.perSigma = perSigma
  return {epsilon: Math.max(...curves.map(curve => curve.epsilon(delta, size))), curves}
}
