"""The pages in a real browser: quiet, visible, and no wider than a phone."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ptxgym.report.page import write_report

from .doubles import HOSTILE, demonstration, evaluation, stop, turn, write_run

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is here to open the report in")

PHONE, DESKTOP = 390, 1280

# Appended to a copy of a page, without the page's own ban on scripts: the browser says what it shows.
MEASURE = """<script>
addEventListener('load', () => {
  const box = e => { const r = e.getBoundingClientRect(); return [r.left, r.width, r.height]; };
  parent.postMessage(JSON.stringify({
    page: document.documentElement.scrollWidth,
    panels: [...document.querySelectorAll('svg.panel')].map(box),
    drawn: [...document.querySelectorAll('svg.panel')].map(s => s.querySelectorAll('rect,polyline,circle').length),
    kernels: [...document.querySelectorAll('details[open] pre.code')].map(box),
    feedback: [...document.querySelectorAll('pre.feedback')].map(box),
    text: getComputedStyle(document.body).color,
    ground: getComputedStyle(document.body).backgroundColor,
    title: document.title,
  }), '*');
});
</script>"""
FRAME = """<!doctype html><body><iframe src="{page}" style="width:{width}px;height:3000px;border:0"></iframe>
<pre id="seen"></pre><script>addEventListener('message', e => seen.textContent = e.data)</script></body>"""


def chromium(profile: Path, url: Path, *arguments: str) -> tuple[str, list[str]]:
    """The page's document after it has settled, and what it wrote to the console."""
    done = subprocess.run(
        [
            str(CHROMIUM),
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--enable-logging=stderr",
            "--virtual-time-budget=3000",
            f"--user-data-dir={profile}",
            *arguments,
            "--dump-dom",
            url.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def measure(tmp_path: Path, page: Path, width: int, dark: bool = False) -> dict[str, object]:
    """What a browser shows of a page at a width."""
    text = page.read_text(encoding="utf-8")
    copy = tmp_path / f"copy-{page.name}"
    copy.write_text(re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text) + MEASURE, encoding="utf-8")
    frame = tmp_path / "frame.html"
    frame.write_text(FRAME.format(page=copy.name, width=width), encoding="utf-8")
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    document, _ = chromium(tmp_path / f"profile-{width}-{dark}", frame, scheme, "--window-size=1400,3000")
    found = re.search(r'<pre id="seen">(.*?)</pre>', document, re.DOTALL)
    assert found, "the page did not load"
    return json.loads(found[1].replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">"))


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("browser")
    records, stops = demonstration("// a kernel with a line that is long enough to need scrolling on any phone\n" * 60)
    write_run(folder / "run", records, stops)
    return write_report([folder / "run"], folder / "out")


def test_pages_write_nothing_to_the_console(written, tmp_path):
    for page in (written.index, written.index.parent / "trajectories" / "00001.html"):
        document, console = chromium(tmp_path / page.stem, page)
        assert console == []
        assert "<h1>" in document


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_figures_are_visible_and_the_page_is_no_wider_than_its_window(written, tmp_path, width):
    seen = measure(tmp_path, written.index, width)
    assert seen["page"] <= width
    assert len(seen["panels"]) >= 10
    for left, across, high in seen["panels"]:
        assert left >= 0
        assert left + across <= width
        assert across >= 250
        assert high >= 60
    assert all(seen["drawn"])


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_a_trajectory_page_is_readable(written, tmp_path, width):
    seen = measure(tmp_path, written.index.parent / "trajectories" / "00001.html", width)
    assert seen["page"] <= width
    assert len(seen["feedback"]) >= 5
    assert len(seen["kernels"]) == 1, "the first kernel is unfolded, later ones show their difference"
    for left, across, high in (*seen["kernels"], *seen["feedback"]):
        assert left + across <= width
        assert across > 0.8 * min(width, 1100)
        assert high > 20


def test_light_and_dark_are_both_legible(written, tmp_path):
    def brightness(colour: str) -> float:
        return sum(map(float, re.findall(r"\d+", colour)[:3])) / 765

    for dark in (False, True):
        seen = measure(tmp_path, written.index, DESKTOP, dark)
        text, ground = brightness(str(seen["text"])), brightness(str(seen["ground"]))
        assert (ground < 0.2) == dark
        assert abs(text - ground) > 0.6


def test_a_browser_obeys_nothing_that_a_kernel_says(tmp_path):
    told = HOSTILE.encode("utf-8", "replace").decode()
    bad = evaluation("compile", "compile_error", diagnostics=told, message=told)
    records = [turn(n, f"{told}{n}", bad, model=told, variant=told, run=told) for n in (1, 2)]
    folder = write_run(tmp_path / "run", records, (stop(records[-1], f"error:{told}"),))
    index = write_report([folder], tmp_path / "out").index
    for page in (index, tmp_path / "out" / "trajectories" / "00001.html"):
        _, console = chromium(tmp_path / f"profile-{page.stem}", page)
        assert console == []
        seen = measure(tmp_path, page, DESKTOP)  # where the ban on scripts is lifted
        assert "onerror" in str(seen["title"]) or seen["title"] == "ptxgym report"
        assert seen["title"] != "taken"
        assert seen["page"] <= DESKTOP
