"""Write ``entry_points.def`` and ``refused_*.def`` anew: run it after adding a function, or for a newer CUDA.

``python csrc/update_lists.py`` compares the sources beside this file with the headers and the ``libcudart.so.13`` of
the toolkit that ptxgym finds. What CUDA has and the sources lack is refused by name.
"""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from pathlib import Path

from ptxgym.devices.simulator.runtime.library import DRIVER_SOURCES, RUNTIME_SOURCES
from ptxgym.toolchain import find_toolkit

HERE = Path(__file__).parent
RESULT = r"(?:CUresult|cudaError_t|const char\*|void\*\*|void|unsigned|char)"
DEFINITION = re.compile(rf"^{RESULT} ((?:__)?cu\w+)\(", re.MULTILINE)

# Functions whose parameters changed: each version has an entry of its own.
CHANGED = {
    "cuCtxCreate": [(12050, "cuCtxCreate_v4"), (3020, "cuCtxCreate_v2")],
    "cuGetProcAddress": [(12000, "cuGetProcAddress_v2"), (11030, "cuGetProcAddress")],
}
NEWEST_ONLY = ("cuMemPrefetchAsync", "cuMemAdvise")


def defined(sources: tuple[str, ...]) -> set[str]:
    """The functions that C files define, by text and by macro."""
    names: set[str] = set()
    for source in sources:
        text = (HERE / f"{source}.c").read_text()
        names.update(DEFINITION.findall(text))
        names.update("".join(pair) for pair in re.findall(r"^PER_THREAD\((\w+), (\w+)\);", text, re.MULTILINE))
        for bits in re.findall(r"^FILL\((\d+),", text, re.MULTILINE):
            names.update(f"cuMemset{shape}{bits}{end}" for shape in ("D", "D2D") for end in ("Async", "_v2"))
    return names


def declared_by_driver(include: Path) -> set[str]:
    """The functions of cuda.h under their real names."""
    command = ["gcc", "-E", "-I", str(include), "-x", "c", "-"]
    text = subprocess.run(command, input="#include <cuda.h>\n", capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"\b(cu[A-Z]\w*)\(", text))


def versions(include: Path) -> dict[str, set[int]]:
    """Base name to the CUDA versions in which a function appeared or changed (cudaTypedefs.h)."""
    found: dict[str, set[int]] = defaultdict(set)
    text = (include / "cudaTypedefs.h").read_text()
    for name, version in re.findall(r"\bPFN_(cu\w+?)_v(\d+)(?:_ptsz)?\)", text):
        found[name].add(int(version))
    return found


def entry_points(known: dict[str, set[int]], ours: set[str]) -> list[tuple[str, int, str]]:
    """Base name, first version, and function, of everything that is defined."""
    rows = []
    for name in sorted(known):
        functions = [f"{name}{suffix}" for suffix in ("_v4", "_v3", "_v2", "") if f"{name}{suffix}" in ours]
        if name in CHANGED:
            rows += [(name, since, function) for since, function in CHANGED[name]]
        elif functions:
            since = max(known[name]) if name in NEWEST_ONLY else min(known[name])
            rows.append((name, since, functions[0]))
    return rows


def write(name: str, comment: str, lines: list[str]) -> None:
    """Replace a list."""
    (HERE / name).write_text(f"// {comment} Written by update_lists.py.\n\n" + "".join(f"{line}\n" for line in lines))


def main() -> None:
    """Write the three lists."""
    toolkit = find_toolkit()
    include, driver, runtime = toolkit.root / "include", defined(DRIVER_SOURCES), defined(RUNTIME_SOURCES)
    known = versions(include)
    rows = entry_points(known, driver)
    comment = "Base name, the first CUDA version whose callers may have it, and the function."
    write("entry_points.def", comment, [f"ENTRY({name}, {since}, {function})" for name, since, function in rows])
    lacking = (declared_by_driver(include) | known.keys()) - driver - {name for name, _, _ in rows}
    comment = "Functions of cuda.h and cudaTypedefs.h without a counterpart here."
    write("refused_driver.def", comment, [f"REFUSED({name})" for name in sorted(lacking)])
    command = ["nm", "-D", "--defined-only", str(toolkit.runtime / "libcudart.so.13")]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    exported = {line.split()[2].partition("@")[0] for line in text.splitlines() if line.split()[1] != "A"}
    comment = "Exports of libcudart.so.13 without a counterpart here."
    write("refused_runtime.def", comment, [f"REFUSED({name})" for name in sorted(exported - runtime)])


if __name__ == "__main__":
    main()
