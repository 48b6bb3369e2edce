// Exact ratios of what was typed, and the text of a proof file of version 2 (docs/proof_format.md). The judge reads it.
"use strict"

const gcd = (a, b) => { while (b) [a, b] = [b, a % b]; return a }
const reduced = (a, b) => { const g = gcd(a, b) || 1n; return [a / g, b / g] }
// a decimal or a quotient of two as [numerator, denominator] in lowest terms
function ratio(text) {
  const parts = text.split("/")
  if (parts.length === 2) { const [a, b] = parts.map(ratio); return reduced(a[0] * b[1], a[1] * b[0]) }
  const [, whole, part, power] = /^([0-9]*)\.?([0-9]*)(?:e([+-]?[0-9]+))?$/i.exec(text)
  const e = Number(power || 0) - part.length, n = BigInt(whole + part)
  return e >= 0 ? [n * 10n ** BigInt(e), 1n] : reduced(n, 10n ** BigInt(-e))
}
// a float as [numerator, denominator]
function exactly(x) { let d = 1n; while (!Number.isInteger(x)) { x *= 2; d *= 2n } return [BigInt(x), d] }
// a quotient of long integers as a float
function near([a, b]) {
  const shift = BigInt(Math.max(0, b.toString(2).length - a.toString(2).length + 64))
  return Number((a << shift) / b) / 2 ** Number(shift)
}
const word = ([a, b]) => b === 1n ? `${a}` : `${a}/${b}`
const GUARD = 6   // bits of the curve beyond what the masses need

// the places of one kind: runs of coarse, fine and coarse ones. Those below all losses are left out, but for one;
// the first at or beyond the greatest is the last
function places({offset, halvings, low, high, floor, top}, spacing, least, greatest) {
  const size = 2 ** halvings
  const runs = halvings ? [[floor, low], [low * size, high * size + 1], [high + 1, top + 1]] : [[floor, top + 1], [0, 0], [0, 0]]
  const loss = (i, j) => offset + (i === 1 ? j / size : j) * spacing
  const kept = runs.map(([from, to], i) => {
    let a = from, b = to
    while (a < b && loss(i, a) < least - spacing) a++
    while (b > a + 1 && loss(i, b - 2) > greatest + 1e-9 * Math.abs(greatest)) b--
    if (a < b && loss(i, a) > greatest + spacing) b = a
    return a < b ? [a, b - a] : [0, 0]
  })
  return kept
}

// One direction: its lines
function section(phases, up, [en, ed], plan) {
  if (!plan.windows) {   // one step alone: the curve at epsilon
    return [`grid ${plan.bits} ${ed} ${ed}`, `own ${en} 0 0 1 0 0 0 0 ${plan.bits + 48}`, "products 0", "halves 0 1"]
  }
  let odd = ed, two = 1n
  while (odd % 2n === 0n) { odd /= 2n; two *= 2n }
  const numbers = [plan.spacing, ...plan.grids.map(grid => grid.offset)].map(exactly)
  for (const [, d] of numbers) if (d > two) two = d
  const den = two * odd, [spacing, ...offsets] = numbers.map(([n, d]) => n * (den / d))
  const kinds = plan.grids.map((grid, i) => {
    const end = -Math.log1p(-near(phases[i].q))
    const runs = places(grid, plan.spacing, up ? -end : -Infinity, up ? Infinity : end)
    const vbits = plan.bits + GUARD + grid.halvings + Math.max(0, Math.ceil(-Math.log2(plan.spacing)))
    return `own ${offsets[i]} ${grid.halvings} ${runs.flat().join(" ")} ${vbits}`
  })
  return [`grid ${plan.bits} ${den} ${spacing}`, ...kinds, `products ${plan.windows.length}`,
    ...plan.windows.map(row => row.join(" ")), `halves ${plan.halves.join(" ")}`]
}

// phases: [{q, s, k}] with exact ratios q and s
function proofText(phases, epsilon, delta, plans) {
  return ["evr-proof 2", "relation add-or-remove", `epsilon ${epsilon.join("/")}`, `delta ${delta.join("/")}`,
    `steps ${phases.length}`, ...phases.map(({q, s, k}) => `${k} poisson(${word(q)},gaussian(${word(s)}))`),
    "directions 2", "direction remove", ...section(phases, true, epsilon, plans[0]),
    "direction add", ...section(phases, false, epsilon, plans[1]), "end", ""].join("\n")
}
