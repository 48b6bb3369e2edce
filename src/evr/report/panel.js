// The panel around the checker: a button that runs it in a worker, its progress, and what it says.
"use strict"

// root holds .check-run, .check-bar, .check-words; source() is the text of the worker; bytes() those of the proof file
function proofPanel(root, source, bytes) {
  const find = name => root.querySelector("." + name)
  const run = find("check-run"), bar = find("check-bar"), words = find("check-words")
  const told = (status, title, lines) => {
    words.className = "check-words " + status
    words.replaceChildren(...[title, ...lines].map((line, i) => {
      const p = document.createElement("p")
      p.textContent = line
      if (i === 0) p.className = "check-title"
      return p
    }))
  }
  run.addEventListener("click", async () => {
    const data = await bytes()
    if (!data) return
    run.disabled = true
    bar.hidden = false
    const began = performance.now()
    let products = 0
    const tick = () => told("running", `Checking: ${products} products, ${((performance.now() - began) / 1000).toFixed(0)} s`, [])
    const clock = setInterval(tick, 250)
    tick()
    const url = URL.createObjectURL(new Blob([source()], {type: "text/javascript"}))
    const worker = new Worker(url)
    const end = (status, title, lines) => {
      clearInterval(clock)
      worker.terminate()
      URL.revokeObjectURL(url)
      bar.hidden = true
      run.disabled = false
      told(status, title, lines)
      root.dataset.status = status
    }
    worker.onerror = event => end("failed", "Not checked: this browser gave up", [event.message])
    worker.onmessage = ({data: m}) => {
      if (m.products) products = m.products
      else end(m.status, m.title, [...m.lines, `Checked in ${m.seconds.toFixed(1)} s.`])
    }
    worker.postMessage({bytes: data})
  })
}
