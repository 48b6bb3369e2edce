// Mathematics: what Markdown marked as such, typeset by KaTeX, which lies beside this file.
document.addEventListener("DOMContentLoaded", () => {
  for (const element of document.querySelectorAll(".arithmatex")) {
    const text = element.textContent.trim(); // \( ... \) in a line, \[ ... \] on lines of its own
    try {
      const displayMode = text.startsWith("\\[");
      element.innerHTML = katex.renderToString(text.slice(2, -2), { displayMode, strict: "error", throwOnError: true });
      if (text.length < 32) element.style.whiteSpace = "nowrap"; // a short formula stays on its line
    } catch (error) {
      console.error(error.message); // the source stays, readable
    }
  }
});
