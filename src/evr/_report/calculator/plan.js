// Grids and windows of a proof, chosen in floats (a port of _plan/grids.py). A bad plan does no harm: the judge decides.
"use strict"

const geom = (a, b, n) => Array.from({length: n}, (_, i) => a * (b / a) ** (i / (n - 1)))
const ORDERS = geom(1e-4, 1e5, 46), TIMES = geom(0.5, 4, 25)
const FINE = 0.3, HALVING = 0.1, CUTTING = 0.05, MEETING = 0.4, COARSE = [0.15, 0.05, 0.015, 0.005]
const AIM = 0.4, TAIL = 14, MOST_HALVINGS = 24

// The products: the steps of each kind that each holds, and its two registers (1, 2, ... are the kinds)
function schedule(counts) {
  const products = [], none = counts.map(() => 0)
  const times = (x, y) => {
    if (!x || !y) return x || y
    const held = x.held.map((n, i) => n + y.held[i])
    products.push({i: x.at, j: y.at, held})
    return {at: counts.length + products.length, held}
  }
  let first = null, rest = null
  counts.forEach((count, i) => {
    const one = {at: i + 1, held: none.map((_, j) => Number(i === j))}, half = Math.floor(count / 2)
    let power = half ? one : null
    for (const bit of half ? half.toString(2).slice(1) : "") {
      power = times(power, power)
      if (bit === "1") power = times(power, one)
    }
    first = times(first, power)
    if (count % 2) rest = times(rest, one)
  })
  const second = times(first, rest)
  return {products, halves: [first ? first.at : 0, second.at]}
}

const sumOf = (list, f) => { let s = 0; for (let i = 0; i < list.length; i++) s += f(list[i], i); return s }

// What the chooser knows about one direction at an epsilon
function outlook(curve, epsilon, logDelta) {
  const order = curve.orderAt(epsilon), great = Math.max(order, 1)
  let variance = 0, square = 0
  const kinds = curve.parts.map(({law, plain, k}) => {
    const raw = law.points(0, order, 60, 60), base = plain.points(0, 0, 60, 60)
    if (!law.up) for (const p of [raw, base]) { p.y.reverse(); p.w.reverse() }   // losses rise
    const [cumulant, mean, spread] = cumulants(raw, order), losses = raw.y
    variance += k * spread; square += k * (spread + mean * mean)
    let middle = 0, sum = 0
    while (middle < base.n - 1 && sum < 0.5) sum += Math.exp(base.w[middle++])
    const end = law.q < 1 ? -Math.log1p(-law.q) : Infinity
    return {
      k, losses, cumulant, tilted: raw.w.map((w, i) => Math.exp(w + order * losses[i] - cumulant)),
      offset: Math.round(base.y[middle] * 2 ** 44) / 2 ** 44,
      lows: ORDERS.map(s => logMoment(base, -s)), highs: TIMES.map(t => logMoment(raw, t * great)),
      least: law.up ? -end : -Infinity, greatest: law.up ? Infinity : end,
    }
  })
  const o = Math.hypot(order, 1 / Math.sqrt(Math.max(variance, 1e-12 * Math.min(1e-300 + square, 1))))
  return {epsilon, order, logDelta, great, kinds, kappa: o * (o + 1) / 2}
}
// how often a part with so many steps of each kind is used in the whole
const usesOf = (view, held) => Math.min(...view.kinds.map(({k}, i) => held[i] ? k / held[i] : Infinity))

function windowsOf(view, tolerance) {
  const small = Math.log(tolerance) - TAIL + Math.log(1e3), {order, epsilon, logDelta, great, kinds} = view
  const total = (held, f) => sumOf(kinds, (kind, i) => held[i] ? held[i] * f(kind) : 0)
  return (held, spacing) => {
    const rest = kinds.map(({k}, i) => k - held[i])
    const room = small + logDelta + order * epsilon - total(rest, kind => kind.cumulant)
    const floorOf = Math.max(...ORDERS.map((s, i) => (room - total(held, kind => kind.lows[i])) / (order + s)))
    let topOf = epsilon
    if (rest.some(n => n)) {
      const rare = Math.log(usesOf(view, held)) - small - logDelta
      const linear = Math.max(...ORDERS.map((s, i) => (small - total(rest, kind => kind.lows[i])) / s))
      topOf = Math.min(epsilon - linear, ...TIMES.map((t, i) => (total(held, kind => kind.highs[i]) + rare) / (t * great)))
    }
    const offset = total(held, kind => kind.offset), steps = sumOf(held, n => n)
    const low = Math.max(floorOf, total(held, kind => kind.least)) - offset, floor = Math.floor(low / spacing) - 1
    const high = Math.min(topOf, total(held, kind => kind.greatest) + steps * spacing) - offset
    return [floor, Math.max(Math.ceil(high / spacing) + 1, floor + 2)]
  }
}

// the variance that each point adds on a grid, times weight and count
function spread({k, losses, offset, tilted}, spacing) {
  return losses.map((y, i) => {
    const p = (y - offset) / spacing, u = p - Math.floor(p)
    return k * tilted[i] * u * (1 - u) * spacing * spacing
  })
}

// the part of one kind that is put on the fine grid
function bulkOf(kind, spacing, fine, coarse) {
  const {losses, offset, tilted} = kind, added = spread(kind, spacing), n = losses.length
  for (let i = 1; i < n; i++) added[i] += added[i - 1]
  if (added[n - 1] <= fine + coarse) return {halvings: 0, low: 0, high: 1, losses: [0], weights: [1], share: 0}
  const first = added.findIndex(x => x >= coarse / 2), last = added.findIndex(x => x >= added[n - 1] - coarse / 2)
  const low = Math.floor((losses[first] - offset) / spacing)
  const high = Math.max(Math.ceil((losses[last < 0 ? n - 1 : last] - offset) / spacing), low + 1)
  const within = []
  for (let i = 0; i < n; i++) {
    if (losses[i] >= offset + low * spacing && losses[i] <= offset + high * spacing) within.push(i)
  }
  let halvings = 1
  for (; halvings < MOST_HALVINGS; halvings++) {
    const s = spread(kind, spacing / 2 ** halvings)
    if (sumOf(within, i => s[i]) <= fine) break
  }
  const share = Math.max(1e-300, sumOf(within, i => tilted[i]))
  return {halvings, low, high, share, losses: within.map(i => losses[i] - offset), weights: within.map(i => tilted[i] / share)}
}
function moments({weights, losses}) {
  const mean = sumOf(weights, (w, i) => w * losses[i])
  return [sumOf(weights, (w, i) => w * (losses[i] - mean) ** 2), sumOf(weights, (w, i) => w * losses[i] ** 2)]
}

// the variance that is added where fine parts meet coarse ones
function meeting(view, spacing, bulks, products) {
  if (!bulks.some(bulk => bulk.halvings)) return 0
  const jumps = view.kinds.map(({k}, i) => k * (1 - bulks[i].share)), squares = bulks.map(bulk => moments(bulk)[1])
  return spacing ** 2 / 3 + sumOf(products, ({held}) => {
    const met = Math.min(sumOf(jumps, (jump, i) => held[i] ? jump : 0), usesOf(view, held))
    return met * Math.min(spacing ** 2 / 6, Math.sqrt(sumOf(squares, (x, i) => held[i] * x)) * spacing)
  })
}

// where the fine part of a product is, under the tilt, by Chernoff's bound
function fineRanges(view, bulks, spacing, unit) {
  const variances = bulks.map(bulk => moments(bulk)[0]), all = sumOf(view.kinds, ({k}, i) => k * variances[i])
  const narrow = Math.min(...variances.filter(v => v > 0), all)
  const orders = geom(0.3 / Math.sqrt(Math.max(all, 1e-300)), 30 / Math.sqrt(Math.max(narrow, 1e-300)), 48)
  const points = bulks.map(({losses, weights}) => ({y: losses, w: weights.map(Math.log), n: losses.length}))
  const [ups, downs] = [1, -1].map(sign => points.map(pts => orders.map(t => logMoment(pts, sign * t))))
  return held => {
    const tail = Math.max(3, Math.log(usesOf(view, held) * held.length / (CUTTING * unit * 6 / spacing ** 2)))
    const by = logs => Math.min(...orders.map((t, i) => (sumOf(held, (n, j) => n ? n * logs[j][i] : 0) + tail) / t))
    return [-by(downs), by(ups)]
  }
}

// a spacing with few bits
function rounded(x) {
  const e = Math.floor(Math.log2(x)) + 1
  return Math.max(1, Math.floor(x / 2 ** e * 256)) * 2 ** (e - 8)
}

const LIST_COST = 200   // of a place, in units of what it costs in a product

// Grids for a bound that exceeds delta by about a tolerance of it
function choose(view, tolerance) {
  const counts = view.kinds.map(({k}) => k), {products, halves} = schedule(counts)
  const places = windowsOf(view, tolerance), unit = AIM * tolerance / view.kappa, each = unit / counts.length
  const alone = spacing => counts.map((_, i) => places(counts.map((_, j) => Number(i === j)), spacing))
  let best = null
  for (let wide = Math.sqrt(unit); wide > 1e-12 && (!best || wide > 0.03 * Math.sqrt(unit)); wide *= 0.75) {
    const spacing = rounded(wide), ends = alone(spacing)
    for (const coarse of COARSE) {
      const bulks = view.kinds.map(kind => bulkOf(kind, spacing, FINE * each, coarse * each))
      if (meeting(view, spacing, bulks, products) > MEETING * unit) continue
      const listed = sumOf(bulks, ({halvings, low, high}, i) =>
        (halvings ? (high - low) * 2 ** halvings : 0) + ends[i][1] - ends[i][0])
      const cost = (LIST_COST + 4 * products.length) * listed
      if (!best || cost < best.cost) best = {cost, spacing, bulks, ends}
    }
  }
  const {spacing, bulks, ends} = best
  let size = 0
  const grids = bulks.map((bulk, i) => {
    const [floor, top] = ends[i], low = Math.max(bulk.low, floor), high = Math.min(bulk.high, top)
    const halvings = low < high ? bulk.halvings : 0
    size = Math.max(size, top - floor, (high - low) * 2 ** halvings)
    return {offset: view.kinds[i].offset, halvings, low, high, floor, top}
  })
  const ranges = fineRanges(view, bulks, spacing, unit), levels = Math.max(1, Math.log2(Math.max(...counts)) / 2)
  const nows = bulks.map(bulk => bulk.halvings)
  const windows = products.map(({i, j, held}) => {
    const [floor, top] = places(held, spacing), present = [...held.keys()].filter(n => held[n]), uses = usesOf(view, held)
    let now = Math.min(...present.map(n => nows[n]))
    while (now && uses * (spacing / 2 ** now) ** 2 / 2 <= HALVING * unit / levels) now--
    if (present.length === 1) nows[present[0]] = now
    const [a, b] = ranges(held).map(x => x * 2 ** now / spacing)
    size = Math.max(size, top - floor)
    return [i, j, now, Math.floor(a) - 1, Math.ceil(b) + 1, floor, top]
  })
  const units = Math.log(sumOf(counts, n => n) * size * 300 / tolerance) - view.logDelta
  const bits = Math.max(40, Math.ceil((units + Math.min(spacing, 2000)) / Math.LN2) + 4)
  return {bits, spacing, grids, windows, halves}
}
