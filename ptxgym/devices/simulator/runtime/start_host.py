"""Start :mod:`ptxgym.devices.simulator.host` as a program, by this file's path.

``python -m`` would import ``ptxgym`` and ``ptxgym.devices`` first, and with them gymnasium and pydantic, which take
longer than most probes. The simulator needs neither, so the two packages are entered without running them.
"""

from __future__ import annotations

import sys
import types
from pathlib import Path

_ROOT = Path(__file__).parents[4]


def main() -> None:
    """Serve on the file descriptors in the arguments."""
    for name in ("ptxgym", "ptxgym.devices"):
        package = types.ModuleType(name)
        package.__path__ = [str(_ROOT.joinpath(*name.split(".")))]
        sys.modules[name] = package
    from ptxgym.devices.simulator.host import main as serve

    serve()


if __name__ == "__main__":
    main()
