// Around verifier.js: opens a proof file, tells damage from a proof that fails, and says what was found.
// The page runs this text in a worker, so that it stays alive meanwhile. Nothing here is proved.
"use strict"

// SHA-256 (FIPS 180-4) in hexadecimal
function sha256(bytes) {
  const rotated = (x, n) => (x >>> n) | (x << (32 - n))
  const primes = []
  for (let n = 2; primes.length < 64; n++) if (primes.every(p => n % p)) primes.push(n)
  // the first 32 bits of the fractional part of a root, by bisection in exact integers
  const fraction = (p, r) => {
    let low = 0n, high = 1n << 40n
    const target = BigInt(p) << BigInt(32 * r)
    while (high - low > 1n) { const m = (low + high) >> 1n; if (m ** BigInt(r) <= target) low = m; else high = m }
    return Number(low & 0xffffffffn) | 0
  }
  const k = primes.map(p => fraction(p, 3)), h = primes.slice(0, 8).map(p => fraction(p, 2))
  const padded = new Uint8Array(Math.floor((bytes.length + 72) / 64) * 64), view = new DataView(padded.buffer)
  padded.set(bytes)
  padded[bytes.length] = 128
  view.setUint32(padded.length - 8, Math.floor(bytes.length / 2 ** 29))
  view.setUint32(padded.length - 4, (bytes.length * 8) >>> 0)
  const w = new Int32Array(64)
  for (let at = 0; at < padded.length; at += 64) {
    for (let i = 0; i < 64; i++) {
      if (i < 16) { w[i] = view.getInt32(at + 4 * i); continue }
      const a = w[i - 15], b = w[i - 2]
      w[i] = w[i - 16] + (rotated(a, 7) ^ rotated(a, 18) ^ (a >>> 3)) + w[i - 7] + (rotated(b, 17) ^ rotated(b, 19) ^ (b >>> 10))
    }
    let [a, b, c, d, e, f, g, z] = h
    for (let i = 0; i < 64; i++) {
      const t1 = (z + (rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25)) + ((e & f) ^ (~e & g)) + k[i] + w[i]) | 0
      const t2 = ((rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0
      z = g; g = f; f = e; e = (d + t1) | 0; d = c; c = b; b = a; a = (t1 + t2) | 0
    }
    [a, b, c, d, e, f, g, z].forEach((x, i) => { h[i] = (h[i] + x) | 0 })
  }
  return h.map(x => (x >>> 0).toString(16).padStart(8, "0")).join("")
}

// {status: "damaged" | "unreadable" | "not version 2" | "too large"}, or {body}: the text before the last line, which is its seal
function openProof(bytes) {
  const end = bytes.length - 72, last = String.fromCharCode(...bytes.subarray(Math.max(0, end - 1)))
  const found = /^\nsha256 ([0-9a-f]{64})\n$/.exec(last)
  if (bytes.length > 2 ** 26) return {status: "too large"}
  if (end < 1 || !found) return {status: "unreadable"}
  const body = bytes.subarray(0, end)
  if (sha256(body) !== found[1]) return {status: "damaged"}
  const head = String.fromCharCode(...body.subarray(0, 12))
  return /^evr-proof[ \n](?!2[ \n])[!-~]/.test(head) ? {status: "not version 2"} : {body}
}

// The places of the kinds that are computed, in pieces; and the pieces of one kind together.
const PIECE = 24
function piecesOf(tasks) {
  return tasks.flatMap((t, task) => Array.from({length: Math.max(1, Math.ceil(t.places / PIECE))},
    (_, i) => ({task, section: t.section, kind: t.kind, from: i * PIECE, count: PIECE})))
}
const computed = (body, p) => globalThis.proofPiece(body, p.section, p.kind, p.from, p.count)
const together = parts => parts.find(p => !p.values) || {values: parts.flatMap(p => p.values)}

// status: "proved" | "listed" | "law" | "refused" | "too large" | "unreadable", and what verifier.js found
function judged(body, parts) {
  const answer = globalThis.judgeProof(body, parts.map(together))
  return answer.read ? {status: answer.verdict, ...answer} : {status: answer.why}
}

// All of it here, one piece after the other
function checkProof(bytes) {
  const {status, body} = openProof(bytes)
  if (status) return {status}
  const tasks = globalThis.proofTasks(body), parts = tasks.map(() => [])
  for (const p of piecesOf(tasks)) parts[p.task].push(computed(body, p))
  return judged(body, parts)
}

// n / d in decimals: as a float shows it where one holds it, else rounded up to six digits
function decimal(n, d) {
  if (n === 0n) return "0"
  const near = Number(n) / Number(d)
  if (Number.isFinite(near) && (d & (d - 1n)) === 0n && BigInt.asUintN(64, n) === n && Number(n) === near * Number(d) && BigInt(Number(n)) === n) return near < 1e-4 ? near.toExponential() : String(near)
  let e = n.toString().length - d.toString().length
  const up = () => e > 5 ? (n + d * 10n ** BigInt(e - 5) - 1n) / (d * 10n ** BigInt(e - 5)) : (n * 10n ** BigInt(5 - e) + d - 1n) / d
  if (up() < 100000n) e--
  if (up() > 999999n) e++
  const digits = up().toString()
  return e > -5 && e < 6 ? String(Number(digits + "e" + (e - 5))) : digits[0] + "." + digits.slice(1) + "e" + e
}

// a law with each ratio that a float holds as that float
const readable = law => law.length > 2000 ? law : law.replace(/[0-9]+\/[1-9][0-9]*/g, ratio => {
  const [n, d] = ratio.split("/").map(BigInt)
  return (d & (d - 1n)) === 0n && BigInt(Number(n)) === n ? decimal(n, d) : ratio
})

// The words of main.ml, and what is to be said of them. Reasons: the words after "reason" in main.ml.
const WORDS = {
  proved: "proved for DP-SGD", listed: "accepted if the listed numbers are right",
  law: "accepted if the law is right for replace-one neighbours", refused: "refused",
}
const NOTES = {
  proved: ["The curve of each step was computed here; no number in the file had to be believed. Coq has proved that the statement then holds for every training that draws each record by a coin of its own, "
    + "clips gradients to a norm C, adds them up, and adds normal noise of the stated multiple of C; rate, noise, C and steps do not depend on the data.", "Not checked: that this is what ran."],
  listed: ["Not checked: that the numbers in the file enclose the privacy curve of each step, and that this mechanism is what ran."],
  law: ["The curve of each step was computed here. Not checked: that the noise is stated for two data sets that differ in the value of one record, and that this mechanism is what ran."],
}
const REASONS = {
  relation: r => `“${r}” is no relation of neighbours.`,
  law: l => `The law ${l} has no meaning under this relation.`,
  directions: () => "Its directions are neither remove and add, nor both.",
  listed: l => `It lists numbers for ${l}, whose curve is computed, not listed.`,
  own: l => `It lists no numbers for ${l}, whose curve is not computed.`,
  numbers: l => `${l}: these are no numbers of such a law.`,
  both: l => `It has one section for both directions, and those of ${l} differ.`,
  place: p => `The curve cannot be enclosed to one unit: ${p}.`,
  bound: () => "The delta that follows is more than the stated one, or none follows.",
}

// What people read: a title and lines. Nearly the words of check_proof.py.
function wordsOf(answer) {
  const {status} = answer
  if (status === "damaged") return {title: "Not checked: the file is damaged", lines: ["The SHA-256 of its text is not the one on its last line."]}
  if (status === "unreadable") return {title: "Not checked: this is not a proof file", lines: []}
  if (status === "not version 2") return {title: "Not checked: this is a proof file of another version than 2", lines: ["Write it again with a newer evr."]}
  if (status === "too large") return {title: "Not checked: larger than the limits of the checker", lines: []}
  const claim = `at epsilon = ${decimal(...answer.epsilon)}, delta is at most ${decimal(...answer.delta)}`
  const steps = answer.steps.map(s => `${s.count.toLocaleString("en")} × ${readable(s.law)}`)
  const about = [`Of this mechanism (neighbours: ${answer.relation}), in both directions:`, ...steps]
  if (status === "refused") {
    const [slug, ...rest] = answer.reason.split(" ")
    return {title: "Refused: this file proves nothing", lines: [REASONS[slug](readable(rest.join(" "))), `It states that ${claim}.`, ...about]}
  }
  const bounds = answer.sections.map(s =>
    `${s.direction === "both" ? "Both directions" : "Direction " + s.direction}: at most ${decimal(s.bound, 1n << (2n * s.bits))}.`)
  const word = WORDS[status][0].toUpperCase() + WORDS[status].slice(1)
  return {title: `${word}: ${claim}.`, lines: [...about, ...bounds, ...NOTES[status]]}
}

// In a worker. {bytes} in: {pieces} out, or the end; {piece}: {piece, part}; {parts}, of each task all: {products} while it runs, then
// the end, {status, title, lines}. With {bytes, silent}, nothing but pieces is wanted of it.
if (typeof WorkerGlobalScope !== "undefined" && globalThis instanceof WorkerGlobalScope) {
  let opened, products = 0
  globalThis.onProduct = () => globalThis.postMessage({products: ++products})
  const end = answer => globalThis.postMessage({status: answer.status, ...wordsOf(answer)})
  globalThis.onmessage = ({data: {bytes, silent, piece, parts}}) => {
    try {
      if (bytes) {
        opened = openProof(bytes)
        if (silent) return
        if (opened.status) return end(opened)
        const tasks = globalThis.proofTasks(opened.body)
        globalThis.postMessage({pieces: piecesOf(tasks), tasks: tasks.length})
      } else if (piece) globalThis.postMessage({piece, part: computed(opened.body, piece)})
      else end(judged(opened.body, parts))
    } catch (error) {
      globalThis.postMessage({status: "failed", title: "Not checked: this browser gave up", lines: [String(error)]})
    }
  }
}
