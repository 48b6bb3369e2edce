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

// {status: "accepted" | "refused" | "damaged" | "unreadable" | "too large"}, and what verifier.js found
function checkProof(bytes) {
  const end = bytes.length - 72, last = String.fromCharCode(...bytes.subarray(Math.max(0, end - 1)))
  const found = /^\nsha256 ([0-9a-f]{64})\n$/.exec(last)
  if (bytes.length > 2 ** 26) return {status: "too large"}
  if (end < 1 || !found) return {status: "unreadable"}
  const body = bytes.subarray(0, end)
  if (sha256(body) !== found[1]) return {status: "damaged"}
  const judged = globalThis.judgeProof(body)
  return judged.read ? {status: judged.accepted ? "accepted" : "refused", ...judged} : {status: judged.why}
}

// n / d in decimals: as a float shows it where one holds it, else rounded up to six digits
function decimal(n, d) {
  if (n === 0n) return "0"
  const near = Number(n) / Number(d)
  if (Number.isFinite(near) && (d & (d - 1n)) === 0n && BigInt.asUintN(64, n) === n && Number(n) === near * Number(d) && BigInt(Number(n)) === n) return String(near)
  let e = n.toString().length - d.toString().length
  const up = () => e > 5 ? (n + d * 10n ** BigInt(e - 5) - 1n) / (d * 10n ** BigInt(e - 5)) : (n * 10n ** BigInt(5 - e) + d - 1n) / d
  if (up() < 100000n) e--
  if (up() > 999999n) e++
  const digits = up().toString()
  return e > -5 && e < 6 ? String(Number(digits + "e" + (e - 5))) : digits[0] + "." + digits.slice(1) + "e" + e
}

// What people read: a title and lines. The same words as check_proof.py's.
function wordsOf(answer) {
  const {status} = answer
  if (status === "damaged") return {title: "Not checked: the file is damaged", lines: ["The SHA-256 of its text is not the one on its last line."]}
  if (status === "unreadable") return {title: "Not checked: this is not a proof file", lines: []}
  if (status === "too large") return {title: "Not checked: larger than the limits of the checker", lines: []}
  const claim = `at epsilon = ${decimal(...answer.epsilon)}, delta is at most ${decimal(...answer.delta)}`
  const steps = answer.steps.map(s => `${s.count} × ${s.law}`)
  const about = [`Of this mechanism (neighbours: ${answer.relation}), in both directions:`, ...steps]
  if (status === "refused") return {title: "Refused: this file proves nothing", lines: [`It states that ${claim}.`, ...about]}
  const bounds = answer.sections.map(s =>
    `${s.direction === "both" ? "Both directions" : "Direction " + s.direction}: at most ${decimal(s.bound, 1n << (2n * s.bits))}.`)
  return {
    title: `The checker accepts: ${claim}, provided that the listed numbers enclose the privacy curve of one step, in each direction.`,
    lines: [...about, ...bounds, "Not checked: those numbers (check_proof.py --enclosures does), and that this mechanism is what ran."],
  }
}

// In a worker: {bytes} in; {products} while it runs, then {status, title, lines, seconds}
if (typeof WorkerGlobalScope !== "undefined" && globalThis instanceof WorkerGlobalScope) {
  globalThis.onmessage = event => {
    const began = performance.now()
    let products = 0
    globalThis.onProduct = () => globalThis.postMessage({products: ++products})
    let answer
    try { answer = checkProof(event.data.bytes) } catch (error) {
      globalThis.postMessage({status: "failed", title: "Not checked: this browser gave up", lines: [String(error)], seconds: 0})
      return
    }
    globalThis.postMessage({status: answer.status, ...wordsOf(answer), seconds: (performance.now() - began) / 1000})
  }
}
