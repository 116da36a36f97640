"""What the tests share: a cache of their own, and the kernels they judge."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ptxgym.tasks import HOPPER, Task, get_task

# Read once, when huggingface_hub is imported: no test asks the network for anything, or tells it anything.
os.environ |= {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples" / "kernels" / "hopper"
BAD_INPUT = ROOT / "tests" / "bad_input"


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> object:
    """Programs compiled once per test run, and never the user's own."""
    patch = pytest.MonkeyPatch()
    patch.setenv("PTXGYM_CACHE", str(tmp_path_factory.mktemp("cache")))
    yield
    patch.undo()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip GPU tests where no Hopper GPU is, and say so."""
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if not marked:
        return
    from ptxgym.devices import get_device

    if get_device("auto", HOPPER).info.kind != "cuda":
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="no Hopper GPU is here"))


def expected_status(path: Path, device: str = "") -> str:
    """What the first line of a kernel in ``bad_input`` expects: ``// expect: STATUS; simulator: STATUS``."""
    general, *special = path.read_text(encoding="utf-8").splitlines()[0].removeprefix("// expect: ").split("; ")
    by_device = dict(entry.split(": ") for entry in special)
    return by_device.get(device, general)


@pytest.fixture
def gemm() -> Task:
    return get_task("PTXBench-GEMM-H100")


@pytest.fixture
def kernel() -> Callable[[str], str]:
    """The text of an example, or of a kernel from ``bad_input``, by name."""

    def read(name: str) -> str:
        for folder in (EXAMPLES, BAD_INPUT):
            if (folder / f"{name}.cu").exists():
                return (folder / f"{name}.cu").read_text(encoding="utf-8")
        raise FileNotFoundError(name)

    return read
