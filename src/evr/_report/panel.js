// The panel around the checker: runs it in workers, shows its progress, and what it says.
"use strict"

const TONES = {running: "running", proved: "good", listed: "held", law: "held"}   // what is neither proved nor held is bad

// root holds .check-bar, .check-words and perhaps .check-run, a button; source() is the text of a worker; bytes() those of the proof file.
// Returns a function that starts a check. A check that runs is ended by the next one.
function proofPanel(root, source, bytes) {
  const find = name => root.querySelector("." + name)
  const run = find("check-run"), bar = find("check-bar"), words = find("check-words")
  const told = (status, title, lines) => {
    words.className = "check-words " + (TONES[status] || "bad")
    words.ariaBusy = String(status === "running")   // a screen reader waits for the end
    words.replaceChildren(...[title, ...lines].map((line, i) => {
      const p = document.createElement("p")
      p.textContent = line
      if (i === 0) p.className = "check-title"
      return p
    }))
  }
  let stop = () => {}
  const start = async () => {
    stop()
    const data = await bytes()
    if (!data) return
    const began = performance.now(), workers = [], parts = []
    const url = URL.createObjectURL(new Blob([source()], {type: "text/javascript"}))
    let queue = [], done = 0, all = 0, products = 0
    delete root.dataset.status
    if (run) run.disabled = true
    bar.hidden = false
    bar.removeAttribute("value")
    const tick = () => {
      const seconds = ((performance.now() - began) / 1000).toFixed(0)
      const stage = done < all ? `Computing the privacy curve: ${Math.floor(100 * done / all)}%` : all || products ? `Composing the steps: ${products} products` : "Reading the proof"
      told("running", `${stage}, ${seconds} s`, [])
    }
    const clock = setInterval(tick, 250)
    stop = () => {
      clearInterval(clock)
      workers.forEach(w => w.terminate())
      URL.revokeObjectURL(url)
      bar.hidden = true
      if (run) run.disabled = false
    }
    const end = (status, title, lines) => {
      stop()
      told(status, title, lines)
      root.dataset.status = status
    }
    const next = worker => { if (queue.length) worker.postMessage({piece: queue.shift()}) }
    const hire = silent => {
      const worker = new Worker(url)
      worker.onerror = event => end("failed", "Not checked: this browser gave up", [event.message])
      worker.onmessage = ({data: m}) => {
        if (m.status) end(m.status, m.title, m.title.startsWith("Not checked") ? m.lines : [...m.lines, `Checked in ${((performance.now() - began) / 1000).toFixed(1)} s.`])
        else if (m.pieces) share(m)
        else if (m.piece) got(worker, m)
        else products = m.products
      }
      worker.postMessage({bytes: data, silent})
      workers.push(worker)
      return worker
    }
    const share = ({pieces, tasks}) => {
      for (let i = 0; i < tasks; i++) parts.push([])
      queue = pieces
      all = pieces.length
      while (workers.length < Math.min(navigator.hardwareConcurrency || 1, 8, Math.ceil(all / 4))) hire(true)
      if (all) workers.forEach(next)
      else workers[0].postMessage({parts})
    }
    const got = (worker, {piece, part}) => {
      parts[piece.task][piece.from] = part
      bar.value = ++done / all
      next(worker)
      if (done < all) return
      bar.removeAttribute("value")
      workers[0].postMessage({parts: parts.map(list => Object.values(list))})   // by rising places
    }
    tick()
    hire(false)
  }
  if (run) run.addEventListener("click", start)
  return start
}
