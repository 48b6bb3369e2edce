// The checker of the report's page, from a command line: node check_proof.js [--listed] training.proof ... ; WIDE=131072 takes Firefox's way.
"use strict"
const fs = require("fs"), path = require("path"), vm = require("vm")
if (process.env.WIDE) globalThis.forceWide = Number(process.env.WIDE)
const page = path.join(__dirname, "..", "..", "src", "evr", "_report")
require(path.join(page, "verifier.js"))
vm.runInThisContext(fs.readFileSync(path.join(page, "checking.js"), "utf8") + "\nglobalThis.WORDS = WORDS")
const files = process.argv.slice(2).filter(name => name !== "--listed"), conditional = process.argv.includes("--listed") ? 0 : 4
let code = 0
for (const file of files) {
  let answer
  try { answer = checkProof(new Uint8Array(fs.readFileSync(file))) } catch (error) { answer = {status: String(error)} }
  if (files.length > 1) console.log("== " + file)
  console.log(WORDS[answer.status] || answer.status)
  if (answer.reason) console.log("reason " + answer.reason)
  for (const s of answer.sections || []) console.log(s.direction, s.bound === null ? "-" : String(s.bound), String(s.bits))
  if (process.env.SHOW) console.log(JSON.stringify(wordsOf(answer), null, 1))
  code = {proved: 0, refused: 3, listed: conditional, law: conditional}[answer.status] ?? 2
}
process.exitCode = code
