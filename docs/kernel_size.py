"""The size of the kernel in lines, as docs/architecture.md states it.

python docs/kernel_size.py            # print the table
python docs/kernel_size.py --write    # and put it into the page
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "architecture.md"
KERNEL = ("order.py", "pairs", "events", "strict", "sampled", "verdict")
LEAVES = ("errors.py", "types.py", "_basics/validate.py", "_basics/randomness.py")
START, END = "<!-- kernel size -->\n", "<!-- end of kernel size -->\n"


def lines(place: Path) -> int:
    files = [place] if place.is_file() else [*place.rglob("*.py")]
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)


def table() -> str:
    """The kernel's parts and their lines, to the nearest hundred; how much of evr that is; and the
    leaves that the kernel imports.
    """
    source = ROOT / "src" / "evr"
    sizes = {name: lines(source / "_kernel" / name) for name in KERNEL}
    total, whole = sum(sizes.values()), lines(source)
    leaves = sum(lines(source / name) for name in LEAVES)
    rows = [f"| `_kernel/{name}` | {max(100, round(size, -2)):,} |" for name, size in sizes.items()]
    share = f"{round(100 * total / whole, -1):.0f}%"
    return "\n".join(
        [
            "| part | lines, about |",
            "|---|---|",
            *rows,
            f"| the kernel, {share} of evr | {round(total, -2):,} |",
            f"| the leaves that it imports | {round(leaves, -2):,} |",
        ]
    )


def page_with(new: str) -> str:
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(START, 1)
    return f"{before}{START}\n{new}\n\n{END}{rest.split(END, 1)[1]}"


if __name__ == "__main__":
    print(table())
    if "--write" in sys.argv:
        PAGE.write_text(page_with(table()), encoding="utf-8")
