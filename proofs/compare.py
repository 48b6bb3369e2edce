"""Compares the checkers: Python (check_proof.py), JavaScript (verifier.js in node), and native
where `make proofs` made it.

python proofs/compare.py vectors
python proofs/compare.py mutations 1000
python proofs/compare.py settings      # writes agreement.md: 32 settings, with evr's own integers
"""

from __future__ import annotations

import hashlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

HERE = Path(__file__).parent
NATIVE = HERE / "checker" / "check_proof"
SCRIPT = HERE.parent / "src" / "evr" / "_proof" / "check_proof.py"
ANSWERS = """
import sys
sys.path.insert(0, sys.argv[1])
import check_proof
sys.set_int_max_str_digits(0)
for path in sys.argv[2:]:
    print("==", path)
    try:
        answer = check_proof.check(open(path, "rb").read())
    except check_proof.NotReadError as why:
        print(str(why).partition(":")[0])
    else:
        print(answer.word)
        for section, units in zip(answer.file.sections, answer.bounds):
            print(section.mark, "-" if units is None else units, section.bits)
"""
LONGEST = 3600  # seconds; machines may be busy


def native(paths: list[Path]) -> list[str]:
    return [_run(f"ulimit -s unlimited; {NATIVE} {path}") for path in paths]


def python(paths: list[Path]) -> list[str]:
    """All in one process."""
    return _parts(_run(f"{sys.executable} -c '{ANSWERS}' {SCRIPT.parent} {' '.join(map(str, paths))}"))


def javascript(paths: list[Path]) -> list[str]:
    """All in one process: node is slow to begin."""
    return _parts(_run(f"node {HERE / 'checker' / 'check_proof.js'} {paths[0]} {' '.join(map(str, paths))}"))[1:]


def _parts(answers: str) -> list[str]:
    """The answers to several files, each after a line with its name."""
    return [part.partition("\n")[2].strip() for part in answers.split("== ")[1:]]


def _run(command: str) -> str:
    """What it prints, but for its reasons, of which each checker has words of its own."""
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=LONGEST, check=False)
    return re.sub("(?m)^reason .*\n?", "", done.stdout).strip()


def checkers() -> dict[str, object]:
    """Those that there are."""
    found: dict[str, object] = {"python": python}
    if shutil.which("node"):
        found["javascript"] = javascript
    if NATIVE.exists():
        found["native"] = native
    return found


KEYWORDS = "relation epsilon delta steps directions direction grid own curve outcomes products halves end"


def mutated(data: bytes, draw: random.Random) -> bytes:
    """A file with one to three changed words, and the seal that fits. A keyword is changed rarely."""
    lines = [line.split(" ") for line in data[:-72].decode().removesuffix("\n").split("\n")]
    for _ in range(draw.randint(1, 3)):
        row = draw.choice(lines[1:])
        at = draw.randrange(len(row))
        while row[at] in KEYWORDS.split() and draw.random() < 0.98:
            row = draw.choice(lines[1:])
            at = draw.randrange(len(row))
        row[at] = _changed(row[at], draw)
    body = ("\n".join(" ".join(row) for row in lines) + "\n").encode()
    return body + f"sha256 {hashlib.sha256(body).hexdigest()}\n".encode()


def _changed(word: str, draw: random.Random) -> str:
    """Another number for a number; for other words another digit, word or letter."""
    if word.lstrip("-").isdigit() and len(word) < 400:
        return str(int(word) + draw.choice([-1000, -3, -2, -1, 1, 2, 3, 10, 1000, 10**9]))
    if word in OTHER_WORDS and draw.random() < 0.8:
        return draw.choice(OTHER_WORDS)
    digits = [i for i, letter in enumerate(word) if letter.isdigit()]
    if "/" in word and digits and draw.random() < 0.8:
        place, letter = draw.choice(digits), str(draw.randrange(10))
        return word[:place] + letter + word[place + 1 :]
    place, letter = draw.randrange(len(word)), chr(draw.randrange(48, 112))
    return word[:place] + letter + word[place + draw.randint(0, 1) :]


OTHER_WORDS = ["add-or-remove", "replace-one", "zero-out", "remove", "add", "both", "own", "curve", "outcomes"]


def differing(paths: list[Path]) -> tuple[list[Path], Counter[str]]:
    """The files of which two checkers say different things, and how often each word was said."""
    told = {name: check(paths) for name, check in checkers().items()}  # type: ignore[operator]
    rows = list(zip(*told.values(), strict=True))
    tally = Counter(row[0].partition("\n")[0] for row in rows)
    return [path for path, row in zip(paths, rows, strict=True) if len(set(row)) > 1], tally


def mutations(number: int, seed: int = 1) -> tuple[list[Path], Counter[str]]:
    """As many mutated vectors; those of which checkers differ stay in a folder."""
    draw = random.Random(seed)
    good = sorted((HERE / "vectors").glob("good-*.proof"))
    folder = Path(tempfile.mkdtemp(prefix="mutations"))
    paths = []
    for i in range(number):
        paths.append(folder / f"{i}.proof")
        paths[-1].write_bytes(mutated(draw.choice(good).read_bytes(), draw))
    differ, tally = differing(paths)
    for path in set(paths) - set(differ):
        path.unlink()
    if not differ:
        folder.rmdir()
    return differ, tally


def settings() -> str:
    """A table: the integer of evr and of each checker, for 32 settings."""
    from agreement import SETTINGS, certified

    from evr._proof.writer import word_of

    rows = [
        "| setting | delta | evr's integers, remove / add | the same in | word | kB | seconds |",
        "|---|---|---|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory() as folder:
        for name, make in SETTINGS.items():
            data, proofs = certified(make)
            path = Path(folder) / "x.proof"
            path.write_bytes(data)
            own = [str(proof.delta * (1 << 2 * bits)) for proof, bits in proofs]
            said, times = [], []
            for which, check in checkers().items():
                began = time.perf_counter()
                (answer,) = check([path])  # type: ignore[operator]
                times.append(f"{time.perf_counter() - began:.1f}")
                first, *bounds = answer.split("\n")
                same = first == word_of(data) and [row.split()[1] for row in bounds] == own
                said.append(which if same else f"**not {which}**")
            shown = " / ".join(one if len(one) < 14 else f"{one[:6]}…{one[-6:]}" for one in own)
            delta = max(proof.delta for proof, _ in proofs)
            rows.append(
                f"| {name} | {float(delta):.4g} | {shown} | {', '.join(said)} | {word_of(data)} "
                f"| {len(data) / 1000:.1f} | {' / '.join(times)} |"
            )
            print(rows[-1], flush=True)
    return "\n".join(rows) + "\n"


def main() -> int:
    what, *rest = sys.argv[1:] or ["vectors"]
    if what == "settings":
        table = settings()
        head = (
            "# Four programs, one integer\n\nWritten by `python proofs/compare.py settings`. "
            f"Seconds are wall time of {', '.join(checkers())}, on a machine that others use. Of a "
            "long integer both ends are shown.\n\n"
        )
        (HERE / "agreement.md").write_text(head + table)
        return int("**not" in table)
    if what == "mutations":
        differ, tally = mutations(int(rest[0]) if rest else 1000)
    else:
        differ, tally = differing(sorted((HERE / "vectors").glob("*.proof")))
    print(f"{', '.join(checkers())}: {dict(tally)}; they differ in {len(differ)}")
    for path in differ[:20]:
        print(path)
    return int(bool(differ))


if __name__ == "__main__":
    sys.exit(main())
