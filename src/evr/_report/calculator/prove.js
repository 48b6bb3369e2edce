// From parameters to a claim, a plan and a file. Nothing here is trusted: judgeProof (verifier.js, from Coq) decides.
"use strict"

// epsilon rounded up to three digits, as [digits, exponent of 10]
function threeDigits(x, more) {
  if (!(x > 0)) return more ? [BigInt(more), -3] : [0n, 0]
  let e = Math.floor(Math.log10(x)) - 2, n = Math.ceil(x / 10 ** e * (1 - 1e-12)) + more
  if (n >= 1000) { n = Math.ceil(n / 10); e++ }
  return [BigInt(n), e]
}
const asRatio = ([n, e]) => e >= 0 ? [n * 10n ** BigInt(e), 1n] : reduced(n, 10n ** BigInt(-e))

const MOST = 0.25     // of delta: no plan needs more room
const LEAST = 6e-4    // of delta: with less room, the next epsilon of three digits is claimed
const ROUNDS = 8

// {phases: [{q, noise, steps}], delta, epsilon?}, all but steps as text
const exactPhases = params => params.phases.map(({q, noise, steps}) => ({q: ratio(q), s: ratio(noise), k: steps}))
const floats = phases => phases.map(({q, s, k}) => ({q: near(q), s: near(s), k}))

// A claim that is planned until the judge accepts it
class Attempt {
  constructor(params, least = LEAST) {
    this.phases = exactPhases(params); this.delta = ratio(params.delta); this.d = near(this.delta); this.least = least
    Object.assign(this, estimate(floats(this.phases), this.d))
    this.fixed = params.epsilon ? ratio(params.epsilon) : null
    this.more = 0; this.round = 0; this.safe = 1.6
    this.aim()
  }
  // the least claim of three digits that leaves room for a proof
  aim() {
    for (;; this.more++) {
      this.claimed = this.fixed || asRatio(threeDigits(this.epsilon, this.more))
      this.value = near(this.claimed)
      this.gaps = this.curves.map(c => c.above < this.value ? Infinity
        : Math.expm1(Math.log(this.d) - c.sum(c.order).logDelta(this.value)))
      if (this.fixed || Math.min(...this.gaps) >= this.least || this.more > 3) return
    }
  }
  plan(i) {
    const curve = this.curves[i], gap = this.gaps[i], {d, phases} = this
    if (phases.length === 1 && phases[0].k === 1) return {bits: Math.ceil(-Math.log2(d)) + 60}
    if (gap <= MOST) return choose(outlook(curve, this.value, Math.log(d) - Math.log1p(gap)), this.safe * Math.max(gap, 1e-6))
    // a smaller epsilon with room enough, and no more: delta does not rise from it on
    const value = Math.min(this.value, curve.epsilon(d / (1 + MOST)))
    return choose(outlook(curve, value, Math.log(d / (1 + MOST))), this.safe * MOST)
  }
  // the file to be judged
  file() {
    this.text = proofText(this.phases, this.claimed, this.delta, [0, 1].map(i => this.plan(i)))
    this.body = new TextEncoder().encode(this.text)
    return {body: this.body, tasks: proofTasks(this.body), claimed: decimal(...this.claimed)}
  }
  judge(computed) {
    const answer = judgeProof(this.body, computed)
    this.round++
    if (answer.read && answer.verdict === "proved") {
      return {
        proved: true, text: this.text + "sha256 " + sha256(this.body) + "\n", estimate: this.epsilon, relation: answer.relation,
        epsilon: decimal(...answer.epsilon), delta: decimal(...answer.delta), rounds: this.round,
        steps: answer.steps.map(({count, law}) => ({count: Number(count), law})),
        bounds: answer.sections.map(s => `${decimal(s.bound, 1n << (2n * s.bits))} (${s.direction === "add" ? "a record added" : "a record removed"})`),
      }
    }
    const why = answer.read ? answer.reason : answer.why
    if (this.round >= ROUNDS || why === "too large" || !this.better(answer)) return {proved: false, why}
    return {again: this.file()}
  }
  // a finer plan, or more room
  better(answer) {
    const used = Math.max(...(answer.sections || []).map((s, i) => {
      if (s.bound === null) return 2
      const part = near([s.bound * this.delta[1], (1n << (2n * s.bits)) * this.delta[0]]), gap = Math.min(this.gaps[i], 1e9)
      return (part * (1 + gap) - 1) / gap
    }), 1.1)
    if (this.safe > 0.3 && used < 20) this.safe *= Math.min(0.8, 0.85 / used)
    else if (this.fixed) return false
    else { this.more++; this.aim(); this.safe = 1.2 }
    return true
  }
}

// The least noise (four digits) at which epsilon is at most a target, with room for a proof
function noiseFor(params, target) {
  const d = near(ratio(params.delta)), phases = floats(exactPhases({phases: params.phases.map(p => ({...p, noise: "1"}))}))
  const at = l => estimate(phases.map(p => ({...p, s: Math.exp(l)})), d, 8192, 100).epsilon
  const [least, most] = [Math.log(0.3), Math.log(1000)], aim = target * (1 - 2e-5)
  let a = least, b = most
  if (at(least) <= aim) return "0.3"
  if (at(most) > aim) return null
  let ya = Infinity, yb = -Infinity, l = 0
  for (let i = 0; i < 40 && b - a > 1e-6; i++) {
    const y = Math.log(at(l) / aim)
    if (y > 0) { a = l; ya = y } else { b = l; yb = y }
    // false position where both ends are known, kept away from them; else halves
    const t = ya < Infinity && yb > -Infinity ? Math.min(0.95, Math.max(0.05, ya / (ya - yb))) : 0.5
    l = a + (b - a) * t
  }
  const e = Math.floor(Math.log10(Math.exp(b))) - 3
  return String(Number((Math.ceil(Math.exp(b) / 10 ** e) * 10 ** e).toPrecision(4)))
}
