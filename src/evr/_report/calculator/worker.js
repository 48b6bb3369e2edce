// In a worker: {id, task, ...} in, {id, ...} out
"use strict"
let attempt = null, held = null   // what is planned here; the file whose pieces are computed here

const quick = 4096
const tasks = {
  estimate({params}) {
    const began = performance.now(), {epsilon} = estimate(floats(exactPhases(params)), near(ratio(params.delta)))
    return {epsilon, seconds: (performance.now() - began) / 1000}
  },
  noise({params, target}) { return {noise: noiseFor(params, near(ratio(target)))} },
  // [epsilon, log10 delta] from delta 0.5 to a hundredth of delta, and delta at epsilon 0
  curve({params}) {
    const phases = floats(exactPhases(params)), low = Math.log10(near(ratio(params.delta))) - 2, top = Math.log10(0.5), n = 16
    const curves = [true, false].map(up => new Curve(phases, up, 10 ** low)), points = []
    for (const curve of curves) curve.perSigma = 60
    for (let i = 0; i <= n; i++) {
      const log = top + (low - top) * i / n
      points.push([Math.max(...curves.map(curve => curve.epsilon(10 ** log, quick))), log])
    }
    const logs = curves.map(curve => { curve.epsilon(0.3, quick); return curve.sum(curve.orderAt(0), quick).logDelta(0) })
    return {points, advantage: Math.exp(Math.max(...logs))}
  },
  // [share of the steps, epsilon]
  along({params}) {
    const phases = floats(exactPhases(params)), delta = near(ratio(params.delta)), total = sumOf(phases, p => p.k), points = []
    for (const share of [0.02, 0.06, 0.12, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1]) {
      let left = Math.ceil(share * total)
      const part = phases.map(p => { const k = Math.min(left, p.k); left -= k; return {...p, k} }).filter(p => p.k)
      points.push([share, estimate(part, delta, quick, 60).epsilon])
    }
    return {points}
  },
  plan({params, least}) { attempt = new Attempt(params, least); return attempt.file() },
  hold({body}) { held = body; return {} },
  piece({section, kind, from, count}) { return proofPiece(held, section, kind, from, count) },
  judge({computed}) { return attempt.judge(computed) },
}
globalThis.onmessage = ({data}) => {
  try { globalThis.postMessage({id: data.id, ...tasks[data.task](data)}) } catch (error) {
    globalThis.postMessage({id: data.id, error: String(error && error.message || error)})
  }
}
