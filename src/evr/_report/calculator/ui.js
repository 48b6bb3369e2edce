// The form, the workers, and what is shown. What is called proved comes from the judge's answer, as it read the file.
"use strict"
const $ = id => document.getElementById(id), all = query => [...document.querySelectorAll(query)]
const DEFAULTS = {noise: "1.1", epsilon: "2", dataset: "60000", batch: "256", probability: "0.004", epochs: "15", steps: "3516", delta: "1e-5"}
const EACH = ["noise", "batch", "probability", "epochs", "steps"], MOST_PHASES = 6, MOST_STEPS = 5e6, PIECE = 24, LEAST_NOISE = "0.3"
const code = (...ids) => URL.createObjectURL(new Blob(ids.map(id => $(id).textContent + ";\n"), {type: "text/javascript"}))
const JUDGE = code("judge", "planner"), PLANNER = code("planner")

// A worker whose tasks are promises
class Hand {
  constructor(source) {
    this.waiting = new Map(); this.number = 0; this.source = source
    this.worker = new Worker(source)
    this.worker.onerror = event => { for (const {no} of this.waiting.values()) no(new Error(event.message || "a worker failed")) }
    this.worker.onmessage = ({data}) => {
      const {yes, no} = this.waiting.get(data.id)
      this.waiting.delete(data.id)
      if (data.error) no(new Error(data.error)); else yes(data)
    }
  }
  ask(task, data) {
    const id = ++this.number
    return new Promise((yes, no) => { this.waiting.set(id, {yes, no}); this.worker.postMessage({id, task, ...data}) })
  }
  // itself if it is free, else a new one in its place
  free() { if (!this.waiting.size) return this; this.worker.terminate(); return new Hand(this.source) }
}
// One hand estimates; one that draws and those that judge start after the first estimate
let estimator = new Hand(PLANNER), drawer = null, hands = null, run = 0, timer = 0, shown = {}
const judges = () => Array.from({length: Math.max(1, Math.min(navigator.hardwareConcurrency || 2, 8))}, () => new Hand(JUDGE))

// --- the form ---
const chosen = name => document.querySelector(`input[name=${name}]:checked`).value
const choose = (name, value) => { document.querySelector(`input[name=${name}][value=${value}]`).checked = true }
const phases = () => all(".phase"), field = (phase, name) => phase.querySelector(`[data-name=${name}]`)
function addPhase(values) {
  const number = phases().length + 1, phase = $("phase").content.firstElementChild.cloneNode(true)
  for (const input of phase.querySelectorAll("input")) {
    input.id = `in-${input.dataset.name}-${number}`
    input.previousElementSibling.htmlFor = input.id
    input.value = values[input.dataset.name]
  }
  phase.firstElementChild.textContent = `Phase ${number}`
  $("phases").append(phase)
}
function show() {
  const names = ["known", "sampling", "length"].map(chosen), number = phases().length
  for (const part of all("[data-for]")) part.hidden = !names.includes(part.dataset.for)
  for (const phase of phases()) phase.firstElementChild.hidden = number < 2
  $("drop").hidden = number < 2
  $("add").disabled = number >= MOST_PHASES
}
const RULES = {noise: "a number such as 1.1", epsilon: "a number such as 2 or 0.5", dataset: "a whole number", batch: "a whole number", steps: "a whole number",
  probability: "a number such as 0.01 or 1/100", epochs: "a number such as 15 or 2.5", delta: "a number such as 1e-5 or 0.00001"}
const NUMBER = /^(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]{1,3})?$/i
// what an input says: {text, value, exact}; refused with the value, the rule and the remedy
function number(input, whole, [least, most]) {
  const typed = input.value.trim(), grouped = whole ? /^[1-9][0-9]{0,2}([ _,\u00a0\u202f][0-9]{3})+$/ : /^[1-9][0-9]{0,2}([ _\u00a0\u202f][0-9]{3})+$/
  const text = grouped.test(typed) ? typed.replace(/[^0-9]/g, "") : typed   // "0,750" might be three quarters
  const parts = whole ? [text] : text.split("/"), name = input.labels[0].firstChild.textContent, rule = RULES[input.dataset.name || input.id.slice(3)]
  const fits = text.length <= 30 && parts.length <= 2 && parts.every(part => (whole ? /^[0-9]+$/ : NUMBER).test(part))
  const exact = fits && parts.every(part => Number(part) > 0) ? ratio(text) : null, value = exact ? near(exact) : NaN
  const good = value >= least && value <= most
  if (good) return {text, value, exact}
  input.setAttribute("aria-invalid", "true"); input.setAttribute("aria-describedby", "wrong")
  throw new Error(`${name}: ${typed ? `“${typed.slice(0, 30)}” is not accepted. Give` : "give"} ${rule} from ${least} to ${most.toLocaleString("en")}${!whole && typed.includes(",") ? ", with a point for decimals" : ""}.`)
}
// the parameters, as text and whole numbers, and what notes need
function read() {
  for (const input of all("[aria-invalid]")) { input.removeAttribute("aria-invalid"); input.removeAttribute("aria-describedby") }
  const target = chosen("known") === "epsilon" ? number($("in-epsilon"), false, [0.001, 1e5]) : null
  const size = chosen("sampling") === "dataset" ? number($("in-dataset"), true, [1, 1e12]) : null
  const found = phases().map(phase => {
    const noise = target ? null : number(field(phase, "noise"), false, [Number(LEAST_NOISE), 1000])
    const rate = number(field(phase, size ? "batch" : "probability"), Boolean(size), size ? [1, size.value] : [1e-9, 1])
    const exact = size ? reduced(rate.exact[0], size.exact[0]) : rate.exact
    let steps, passes
    if (chosen("length") === "steps") steps = number(field(phase, "steps"), true, [1, MOST_STEPS]).value
    else {
      const epochs = number(field(phase, "epochs"), false, [1e-9, 1e9]).exact, over = epochs[1] * exact[0]
      passes = near(epochs)
      steps = Number((epochs[0] * exact[1] + over - 1n) / over)
    }
    return {q: word(exact), noise: noise && noise.text, steps, passes, rate: near(exact), loud: noise && noise.value > 50}
  })
  const steps = found.reduce((sum, p) => sum + p.steps, 0)
  if (steps > MOST_STEPS) {
    throw new Error(`These are ${steps.toLocaleString("en")} steps. This page proves at most ${MOST_STEPS.toLocaleString("en")}: for more, use evr certify.`)
  }
  const delta = number($("in-delta"), false, [1e-100, 0.5])
  return {phases: found, delta: delta.text, target: target && target.text, size: size && size.value, steps, deltaValue: delta.value}
}
function link() {
  const pairs = [], add = (name, input) => pairs.push([name, input.value.trim()])
  if (chosen("known") === "epsilon") add("epsilon", $("in-epsilon"))
  if (chosen("sampling") === "dataset") add("dataset", $("in-dataset"))
  for (const phase of phases()) for (const name of EACH) if (!field(phase, name).parentNode.hidden) add(name, field(phase, name))
  add("delta", $("in-delta"))
  return "#" + new URLSearchParams(pairs)
}
const EITHER = [["epsilon", "noise"], ["probability", "batch"], ["probability", "dataset"], ["steps", "epochs"]]
let foreign = ""   // what a link says that the form cannot hold: nothing is computed then
function fromLink() {
  const given = new URLSearchParams(location.hash.slice(1)), get = name => given.get(name) ?? DEFAULTS[name]
  for (const name of ["epsilon", "dataset", "delta"]) $("in-" + name).value = get(name)
  choose("known", given.has("epsilon") ? "epsilon" : "noise")
  choose("sampling", given.has("probability") ? "probability" : "dataset")
  choose("length", given.has("steps") ? "steps" : "epochs")
  $("phases").replaceChildren()
  const count = Math.max(1, ...EACH.map(name => given.getAll(name).length))
  for (let i = 0; i < Math.min(count, MOST_PHASES); i++) {
    addPhase(Object.fromEntries(EACH.map(name => [name, given.getAll(name)[i] ?? get(name)])))
  }
  const names = [...given.keys()], twice = ["epsilon", "dataset", "delta"].find(name => given.getAll(name).length > 1)
  const unknown = names.find(name => !Object.hasOwn(DEFAULTS, name)), pair = EITHER.find(two => two.every(name => names.includes(name)))
  foreign = unknown !== undefined ? `it says “${unknown.slice(0, 30)}”. Known are ${Object.keys(DEFAULTS).join(", ")}`
    : pair ? `it says both ${pair.join(" and ")}. Keep one of them` : twice ? `it says ${twice} more than once. Keep one of them`
      : count > MOST_PHASES ? `it has ${count} phases. This page proves at most ${MOST_PHASES}: for more, use evr certify` : ""
  show()
}

// --- what is shown ---
const digits = x => x === 0 ? "0" : x >= 1000 ? x.toFixed(0) : Number(x.toPrecision(4)).toString()
const short = text => { const x = Number(text); return x >= 1e-3 || x === 0 ? String(x) : x.toExponential().replace("e+", "e") }
const plain = text => Number(text).toLocaleString("en"), stepsIn = n => `${plain(n)} step${n === 1 ? "" : "s"}`
function lines(element, texts, tag = "p") {
  if ([...element.children].map(e => e.textContent).join("\n") === texts.join("\n")) return   // nothing is read out twice
  element.replaceChildren(...texts.map(text => { const e = document.createElement(tag); e.textContent = text; return e }))
}
// the verdict with the epsilon it is about, always together
function verdict(name, epsilon) {
  $("verdict").textContent = name; $("result").className = `card ${name}`
  $("epsilon").textContent = epsilon; $("about").hidden = name !== "estimated" || !(Number(epsilon) > 0)
  $("strip").textContent = name === "refused" ? name : `epsilon ${epsilon}, ${name}`
}
const tell = (...texts) => lines($("words"), texts)
function progress(value) {
  $("bar").classList.toggle("idle", value === null)
  if (value === undefined) $("bar").removeAttribute("value"); else $("bar").value = value || 0
}
function refuse(words, mine) {
  if (mine !== run) return
  verdict("refused", "–"); progress(null); tell(words)
}
const BUTTONS = ["copy-text", "copy-latex", "save"]

function changed(wait = 350) {
  const mine = ++run
  clearTimeout(timer)
  shown = {proof: null, points: []}
  estimator = estimator.free()
  for (const id of BUTTONS) $(id).disabled = true
  for (const id of ["plot", "along", "means", "copied", "noise", "derived"]) $(id).replaceChildren()
  lines($("means"), ["Sentences stand here once something is proved."], "li")
  progress(null); $("wrong").textContent = ""
  let params
  try { if (!foreign) history.replaceState(null, "", link()) } catch { /* a browser may limit how often */ }
  try {
    if (foreign) throw new Error(`The link is not accepted: ${foreign}.`)
    params = read()
  } catch (error) {
    $("wrong").textContent = error.message; $("delta").textContent = "–"
    notes(NOTHING)
    return refuse(error.message, mine)
  }
  $("derived").textContent = params.phases.map(p => `Sampling probability ${Number(p.rate.toPrecision(6))}, ${stepsIn(p.steps)}.`).join(" ")
  $("delta").textContent = short(params.deltaValue)
  notes(params); verdict("estimated", "…")
  timer = setTimeout(() => work(params, mine, wait).catch(error => refuse(`The browser gave up: ${error.message}`, mine)), wait ? 30 : 0)
}

async function work(params, mine, wait) {
  const current = () => mine === run, began = performance.now()
  if (params.target) {
    tell("Looking for the least noise.")
    const {noise} = await estimator.ask("noise", {params, target: params.target})
    if (!current()) return
    if (!noise) return refuse(`No noise multiplier up to 1,000 gives epsilon ${params.target}: take fewer steps or a smaller sampling probability.`, mine)
    params = {...params, epsilon: noise === LEAST_NOISE ? undefined : params.target, phases: params.phases.map(p => ({...p, noise}))}
    if (noise === LEAST_NOISE) notes(params, `This page takes no noise multiplier below ${LEAST_NOISE}. With it, epsilon is already below your target.`)
    $("noise").textContent = `, with noise multiplier ${noise}`
  }
  shown.params = params
  const {epsilon} = await estimator.ask("estimate", {params})
  if (!current()) return
  if (!Number.isFinite(epsilon)) return refuse("No epsilon could be estimated for this setting.", mine)
  verdict("estimated", digits(epsilon))
  tell(`Epsilon is about ${digits(epsilon)}: an estimate, found in ${((performance.now() - began) / 1000).toFixed(2)} s. The proof follows.`)
  drawer = drawer ? drawer.free() : new Hand(PLANNER)
  const curve = drawer.ask("curve", {params}).then(answer => { if (current()) { shown.curve = answer; drawCurve() } })
  await new Promise(yes => { timer = setTimeout(yes, wait) })
  if (!current()) return
  const start = performance.now(), answer = await prove(params, undefined, current, (claimed, share) => {
    progress(share)
    tell(share === undefined ? "Planning the proof." : `The checker computes the curve of one step and judges the claim epsilon = ${short(claimed)}.`)
  })
  if (!current()) return
  if (!answer.proved) {
    return refuse(`${["too large", "unreadable"].includes(answer.why) ? "The proof of this setting would be larger than the checker allows; evr certify may prove it" : `No proof was found (the checker’s reason: ${answer.why})`}. `
      + `Epsilon is about ${digits(epsilon)}, which is an estimate and no guarantee.`, mine)
  }
  shown.proof = answer; shown.points.push(answer)
  progress(null); $("delta").textContent = short(answer.delta); verdict("proved", short(answer.epsilon))
  for (const id of BUTTONS) $(id).disabled = false
  tell(`Proved in ${((performance.now() - start) / 1000).toFixed(1)} s: ${statement(answer)}`,
    `At this epsilon, delta is at most ${answer.bounds.join(" and ")}. The estimate of epsilon was ${digits(answer.estimate)}.`)
  await curve
  if (!current()) return
  drawCurve(); means(false)
  drawer.ask("along", {params}).then(({points}) => { if (current()) { shown.along = points; drawAlong() } }, () => {})
  for (const point of pointsWanted(params)) {
    const more = await prove({...params, epsilon: undefined, ...point}, 0.04, current, () => {}).catch(() => ({}))
    if (!current()) return
    if (more.proved) { shown.points.push(more); drawCurve(); means(false) }
  }
  means(true)
}

// A claim through plan, pieces and judge, until the judge accepts it. The pieces of a kind, joined, are what the judge asks for.
async function prove(params, least, current, tick) {
  hands = hands ? hands.map(hand => hand.free()) : judges()
  const [chief] = hands, team = hands
  tick(null, undefined)
  let file = await chief.ask("plan", {params, least})
  for (;;) {
    const pieces = file.tasks.flatMap(({section, kind, places}, of) =>
      Array.from({length: Math.ceil(places / PIECE)}, (_, i) => ({of, section, kind, from: i * PIECE, count: Math.min(PIECE, places - i * PIECE)})))
    const results = pieces.map(() => null)
    let next = 0, done = 0
    await Promise.all(team.map(async hand => {
      await hand.ask("hold", {body: file.body})
      while (next < pieces.length && current()) {
        const i = next++
        results[i] = await hand.ask("piece", pieces[i])
        if (current()) tick(file.claimed, ++done / (pieces.length + 1))
      }
    }))
    if (!current()) return {proved: false}
    const computed = file.tasks.map((_, task) => {
      const own = results.filter((_, i) => pieces[i].of === task), failed = own.find(result => !result.values)
      return failed || {values: own.flatMap(result => result.values)}
    })
    const answer = await chief.ask("judge", {computed})
    if (answer.proved && !answers(answer, params)) return {proved: false, why: "the file is about another training"}
    if (!answer.again) return answer
    file = answer.again
  }
}
// whether what the judge read is what the form says
function answers({relation, steps}, params) {
  return relation === "add-or-remove" && steps.length === params.phases.length && steps.every(({count, law}, i) => {
    const {q, noise, steps: k} = params.phases[i]
    return count === k && law === `poisson(${word(ratio(q))},gaussian(${word(ratio(noise))}))`
  })
}

// --- words ---
// a ratio as the checker read it, and as a decimal
function exactly10(text) {
  const value = Number(near(ratio(text)).toPrecision(6)), [a, b] = ratio(text), [c, d] = ratio(String(value))
  return a * d === c * b ? String(value) : `${text} (about ${Number(value.toPrecision(4))})`
}
function trainings({steps}) {
  return steps.map(({count, law}) => {
    const [, q, noise] = /^poisson\((.*),gaussian\((.*)\)\)$/.exec(law)
    return `${stepsIn(count)} with Poisson sampling of probability ${exactly10(q)} and noise multiplier ${exactly10(noise)}`
  }).join(", then ")
}
const statement = answer => `DP-SGD of ${trainings(answer)} is (${short(answer.epsilon)}, ${short(answer.delta)})-differentially private if one record is added or removed.`
const digest = answer => answer.text.slice(-65, -1)
function fullText(answer) {
  const assumed = [...$("assumed").children].map(e => e.textContent.replace(/[;.]$/, "")).join("; ")
  return `${statement(answer)} It is assumed that ${assumed}. Proved in exact arithmetic by the checker of evr, which was extracted from Coq. SHA-256 of the proof: ${digest(answer)}.`
}
function latex(answer) {
  const [mantissa, power] = short(answer.delta).split("e")
  const delta = power ? `${mantissa === "1" ? "" : mantissa + " \\cdot "}10^{${Number(power)}}` : mantissa
  return `DP-SGD of ${trainings(answer).replace(/([0-9]),(?=[0-9])/g, "$1{,}")} is $(${short(answer.epsilon)}, ${delta})$-differentially private if one record is added or removed. `
    + `This was proved in exact arithmetic by the checker of evr, which was extracted from Coq (SHA-256 of the proof: \\texttt{${digest(answer).slice(0, 16)}\\ldots}).`
}
const NOTHING = {deltaValue: 0, phases: []}   // notes for a form that cannot be read
function notes({deltaValue, size, phases: found, target}, ...more) {
  const texts = ["Is your loader Poisson? This epsilon is for batches that each record joins by a coin of its own. Shuffled batches of a fixed size, which most loaders make, can leak more: "
    + "turn Poisson sampling on (in Opacus, DPDataLoader or poisson_sampling=True), or account for shuffled batches with evr."]
  if (size && deltaValue >= 1 / size) {
    texts.unshift(`Delta is not below 1 / ${plain(size)}, one over the number of records. Such a delta allows publishing somebody's whole record: take at most ${(0.1 / size).toPrecision(1)}.`)
  } else if (deltaValue > 1e-3) texts.unshift("Delta is large. It should be well below one over the number of records.")
  if (found.some(p => p.loud)) {
    texts.unshift("A noise multiplier above 50 is rare. It is the standard deviation of the noise over the clipping norm, and not divided by the batch size.")
  }
  if (found.some(p => p.rate === 1)) texts.push("Every record is in every batch: sampling does not help.")
  if (target) texts.push("The noise multiplier is the standard deviation of the noise over the clipping norm. It may be rounded up, never down.")
  lines($("notes"), [...more, ...texts], "li")
}

// points of the curve to prove: where attacks are bounded best, and two for the picture
function pointsWanted({delta}) {
  const {points, advantage} = shown.curve, wanted = [], d = near(ratio(delta))
  const add = log => {
    const text = Number((10 ** log).toPrecision(2)).toExponential(), x = Number(text)
    if (x < 0.5 && [d, ...wanted.map(w => Number(w.delta))].every(y => Math.abs(Math.log(x / y)) > 0.4)) wanted.push({delta: text})
  }
  if (1.04 * advantage < 0.95) wanted.push({epsilon: "0", delta: (Math.ceil(1.04 * advantage * 1e4) / 1e4).toFixed(4)})
  for (const rate of [0.001, 0.01]) {
    const cost = ([e, log]) => 10 ** log + Math.exp(e) * rate
    add(points.reduce((best, point) => cost(point) < cost(best) ? point : best)[1])
  }
  add(Math.log10(d) + 2); add(Math.log10(d) - 2)
  return wanted
}
// a share in percent, rounded up
function percent(x) {
  const y = 100 * x * (1 + 1e-9), unit = y >= 10 ? 10 : 10 ** (1 - Math.floor(Math.log10(y)))
  return `${Number((Math.ceil(y * unit) / unit).toPrecision(6))}%`
}
// what the proved points say: an attack that accuses a share f of non-members finds at most delta + e^epsilon f of members
function means(done) {
  const pairs = shown.points.map(({epsilon, delta}) => [Number(epsilon), Number(delta)])
  const found = f => Math.min(...pairs.map(([e, d]) => Math.min(d + Math.exp(e) * f, 1 - Math.exp(-e) * (1 - d - f))))
  const advantage = Math.min(...pairs.map(([e, d]) => (Math.expm1(e) + 2 * d) / (Math.exp(e) + 1))), texts = []
  if (advantage < 0.99) texts.push(`Somebody who has to guess whether one person's record was used, with even odds, is right at most ${percent((1 + advantage) / 2)} of the time. A coin is right 50%.`)
  for (const [rate, name] of [[0.01, "1 of 100"], [0.001, "1 of 1,000"]]) {
    const most = found(rate)
    if (most < 0.99) texts.push(`An attack that wrongly accuses ${name} people who were not in the data finds at most ${percent(most)} of those who were.`)
  }
  const most = found(0.001)
  if (most < 0.5) texts.push(`If the odds were even before, a person whom such an attack accuses was in the data with probability at most ${percent(most / (most + 0.001))}.`)
  if (!texts.length) texts.push("The proved points exclude hardly any attack: this epsilon promises little.")
  texts.push(done ? `These bounds hold for every attacker, whatever else they know. They follow from the ${pairs.length} proved points of the curve.`
    : "More points of the curve are being proved; these bounds may still become smaller.")
  lines($("means"), texts, "li")
}

// --- pictures ---
function picture(element, label, {most, ticks, ys, y, line, dots, aim, under}) {
  const W = 560, H = 270, L = 58, R = 14, T = 10, B = 42, x = v => L + (W - L - R) * v / most, up = v => T + (H - T - B) * (1 - y(v))
  const parts = ticks.map(([v, t]) => `<line class="axis" x1="${x(v)}" x2="${x(v)}" y1="${T}" y2="${H - B}"/><text x="${x(v)}" y="${H - B + 17}" text-anchor="middle">${t}</text>`)
  for (const [v, t] of ys) parts.push(`<line class="axis" x1="${L}" x2="${W - R}" y1="${up(v)}" y2="${up(v)}"/><text x="${L - 6}" y="${up(v) + 4}" text-anchor="end">${t}</text>`)
  if (aim !== undefined) parts.push(`<line class="aim" x1="${L}" x2="${W - R}" y1="${up(aim)}" y2="${up(aim)}"/>`)
  parts.push(`<path class="line" d="${line.map(([a, b], i) => (i ? "L" : "M") + x(a).toFixed(1) + " " + up(b).toFixed(1)).join("")}"/>`)
  for (const [a, b] of dots) parts.push(`<circle class="dot" cx="${x(a)}" cy="${up(b)}" r="5"/>`)
  element.innerHTML = `<svg viewBox="0 0 ${W} ${H}" role="img" aria-label="${label}">${parts.join("")}<text x="${(L + W) / 2}" y="${H - 5}" text-anchor="middle">${under}</text></svg>`
}
function steps10(most, number) {
  const unit = 10 ** Math.floor(Math.log10(most / 2)), step = [1, 2, 5, 10, 20].map(f => f * unit).find(u => most / u <= number)
  return Array.from({length: Math.floor(most / step) + 1}, (_, i) => [i * step, Number((i * step).toPrecision(6))])
}
function drawCurve() {
  if (!shown.curve) return
  const {points, advantage} = shown.curve
  const dots = shown.points.map(p => [Number(p.epsilon), Math.log10(Number(p.delta))])
  const line = [[0, Math.log10(advantage)], ...points.filter(([e]) => e > 0 && Number.isFinite(e))], most = Math.max(...line.map(p => p[0]), ...dots.map(p => p[0]), 1e-9) * 1.03
  const low = Math.floor(Math.min(...line.map(p => p[1]), ...dots.map(p => p[1]))), step = Math.max(1, Math.ceil(-low / 6)), ys = []
  for (let l = 0; l >= low; l -= step) ys.push([l, l === 0 ? 1 : "1e" + l])
  picture($("plot"), `Delta against epsilon; proved: ${shown.points.map(p => `delta ${short(p.delta)} at epsilon ${short(p.epsilon)}`).join(", ")}`,
    {most, ticks: steps10(most, 7), ys, y: l => 1 - l / low, line, dots, aim: Math.log10(shown.params.deltaValue), under: "epsilon (upwards: delta)"})
}
function drawAlong() {
  const line = shown.along, top = Math.max(...line.map(p => p[1]), 1e-9) * 1.08, {epsilon} = shown.proof
  const {phases: [{passes: epochs}, ...others], steps} = shown.params, single = epochs && !others.length
  const total = single ? epochs : steps
  picture($("along"), `Epsilon during the training, estimated; proved at the end: ${short(epsilon)}`,
    {most: total * 1.02, ticks: steps10(total, 6).map(([v, t]) => [v, t.toLocaleString("en")]), ys: steps10(top, 6), y: e => e / top,
      line: [[0, 0], ...line.map(([share, e]) => [share * total, e])], dots: [[total, Number(epsilon)]], under: `${single ? "epochs" : "steps"} (upwards: epsilon)`})
}

// --- buttons ---
async function copy(text, what) {
  try { await navigator.clipboard.writeText(text) } catch {
    const area = document.createElement("textarea")   // a page from a disk may have no clipboard
    area.value = text; document.body.append(area); area.select(); document.execCommand("copy"); area.remove()
  }
  $("copied").textContent = `${what} copied.`
}
$("copy-text").onclick = () => copy(fullText(shown.proof), "Statement")
$("copy-latex").onclick = () => copy(latex(shown.proof), "LaTeX")
$("copy-link").onclick = () => copy(location.href, "Link")
$("save").onclick = () => {
  const a = document.createElement("a")
  a.href = URL.createObjectURL(new Blob([shown.proof.text], {type: "text/plain"})); a.download = "dpsgd.proof"; a.click()
}
$("add").onclick = () => {
  addPhase(Object.fromEntries(EACH.map(name => [name, field(phases().at(-1), name).value])))
  show(); changed()
}
$("drop").onclick = () => { phases().at(-1).remove(); show(); changed() }
$("form").addEventListener("input", () => { foreign = ""; show(); changed() })
$("form").addEventListener("submit", event => event.preventDefault())
addEventListener("hashchange", () => { fromLink(); changed(0) })
fromLink()
changed(0)
