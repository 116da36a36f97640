"""Imports point one way."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "ptxgym"
LAYERS = ("errors", "tasks", "toolchain", "devices", "evaluation", "rewards", "shaping", "trajectories", "envs")
MODULES = [
    path for layer in LAYERS for path in (*(PACKAGE / layer).rglob("*.py"), PACKAGE / f"{layer}.py") if path.exists()
]


def _imported_layers(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
        elif isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
    parts = (name.split(".") for name in names)
    return {part[1] for part in parts if part[0] == "ptxgym" and len(part) > 1}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_imports_from_its_own_layer_or_below(path: Path):
    own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    above = [layer for layer in _imported_layers(path) if layer in LAYERS and LAYERS.index(layer) > LAYERS.index(own)]
    assert not above
    assert not _imported_layers(path) & {"cli", "bench", "runs", "report", "simulation", "integrations"}
