import doctest
import importlib.util
import re
from pathlib import Path

import pytest

import ptxgym
from ptxgym.envs import kernel_env

DOCS = Path(__file__).parent.parent / "docs"


def _generator():
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_pages_are_up_to_date():
    for name, page in _generator().PAGES.items():
        assert (DOCS / name).read_text(encoding="utf-8") == page(), f"docs/{name}: run `make docs`"


@pytest.mark.parametrize("module", [ptxgym, kernel_env])
def test_examples_in_docstrings_run(module):
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("page", [*DOCS.glob("*.md"), DOCS.parent / "README.md", DOCS.parent / "CONTRIBUTING.md"])
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"
