"""The report's files: whole, escaped, and true to the records."""

import math
import re
import struct
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import pytest
from typer.testing import CliRunner

from ptxgym.devices import DeviceInfo
from ptxgym.errors import InfrastructureError, MisuseError
from ptxgym.metrics import Turn
from ptxgym.report.commands import import_ptxbench, report
from ptxgym.report.page import write_report
from ptxgym.report.png import png_of
from ptxgym.report.runs import RunFacts, read_imported, read_trajectories, turn_of_record, write_imported
from ptxgym.runs.records import StopRecord, Usage

from ..metrics.made import trajectory as made_trajectory
from .doubles import HOSTILE, TASK, demonstration, evaluation, stop, turn, write_run


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A report of a demonstration run."""
    folder = tmp_path_factory.mktemp("report")
    records, stops = demonstration("// a kernel\n// it has lines\n" * 40)
    write_run(folder / "run", records, stops)
    return records, write_report([folder / "run"], folder / "out"), folder / "out"


class Page(HTMLParser):
    """Tags, links and text of a page; text stands for what a browser shows."""

    def __init__(self, path) -> None:
        super().__init__()
        self.tags, self.links, self.attributes, self.text = [], [], [], ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        self.links += [value for name, value in attrs if name in ("href", "src")]

    def handle_data(self, data):
        self.text += data


def test_every_trajectory_has_a_page_and_every_link_leads_somewhere(written):
    records, result, out = written
    assert result.trajectories == len({record.key for record in records}) == 12
    assert result.turns == len(records)
    for page in (result.index, *(out / "trajectories").iterdir()):
        for link in Page(page).links:
            target, _, anchor = link.partition("#")
            if link.startswith("data:"):
                continue
            there = (page.parent / target) if target else page
            assert there.exists(), link
            if anchor:
                assert f'id="{anchor}"' in there.read_text(encoding="utf-8")


def test_pages_ask_the_network_for_nothing_and_run_nothing(written):
    _, result, out = written
    for path in (result.index, *(out / "trajectories").iterdir()):
        page = Page(path)
        assert not {"script", "iframe", "object", "embed", "img"} & set(page.tags)
        assert not [name for name, _ in page.attributes if name.startswith("on")]
        assert not [link for link in page.links if "//" in link]
        assert "url(" not in path.read_text(encoding="utf-8")
        assert ("content", "default-src 'none'; style-src 'unsafe-inline'; img-src data:") in page.attributes


def test_figures_are_files_that_parse(written):
    _, result, out = written
    files = sorted((out / "figures").glob("*.svg"))
    assert len(files) == result.figures
    assert {re.sub("^runs-of-this-project-", "", file.stem) for file in files} >= {
        "fastinst_p_work",
        "fastinst_p_paper",
        "fast_p",
        "peak_speedup_work",
        "outcome_by_turn",
        "reasoning_tokens",
        "work_fraction",
    }
    for file in files:
        root = ElementTree.parse(file).getroot()
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert len(root.findall("{http://www.w3.org/2000/svg}svg")) >= 1


def test_every_figure_is_there_as_pixels_too(written):
    _, result, out = written
    files = sorted((out / "figures").glob("*.png"))
    assert len(files) == result.figures
    for file in files:
        drawn = ElementTree.parse(file.with_suffix(".svg")).getroot()
        kind, width, height = struct.unpack(">12x4sII", file.read_bytes()[:24])
        assert kind == b"IHDR"
        assert width == 2 * float(drawn.get("width"))
        assert height == pytest.approx(2 * float(drawn.get("height")), abs=1)


def test_pixels_have_text_on_a_machine_without_fonts():
    drawing = (
        '<svg xmlns="http://www.w3.org/2000/svg" width="60" height="20">'
        '<text x="2" y="14" style="font-family: system-ui, sans-serif">%s</text></svg>'
    )
    assert png_of(drawing % "50%") != png_of(drawing % "")  # the system's fonts are never asked


def test_pixels_have_the_colours_that_the_light_page_has():
    styles = (
        "<style>:root { --ink: #c02030; } @media (prefers-color-scheme: dark) { :root { --ink: #ffffff; } } %s</style>"
    )
    square = (
        '<svg xmlns="http://www.w3.org/2000/svg" width="4" height="4">%s<rect width="4" height="4" class="a"/></svg>'
    )
    by_variable = png_of(square % (styles % ".a { fill: var(--ink); }"))
    assert by_variable == png_of(square % "<style>.a { fill: #c02030; }</style>")
    assert by_variable != png_of(square % "<style>.a { fill: #ffffff; }</style>")


def test_published_values_stand_beside(written):
    page = Page(written[1].index)
    assert "paper 91.7 / 95.8 / 94.8paper’s peak 0.976" in page.text
    assert "Gemini 3.1 Pro, as published" in page.text


def test_a_trajectory_page_has_every_kernel_diff_feedback_and_evidence(tmp_path):
    sources = ["int first;\nint same;", "int second;\nint same;", ""]
    found = [evaluation("correctness"), evaluation(speedup=0.875), evaluation("source", "no_kernel")]
    records = [turn(n, source, e) for n, (source, e) in enumerate(zip(sources, found, strict=True), start=1)]
    write_run(tmp_path / "run", records, (stop(records[-1], "context_full"),))
    write_report([tmp_path / "run"], tmp_path / "out")
    text = Page(tmp_path / "out" / "trajectories" / "00001.html").text
    for expected in (
        "int first;",
        "-int first;",
        "+int second;",
        " int same;",
        "INCORRECT: the outputs are wrong.",
        "PASSED",
        '"norm_error": 0.002',
        "speedup 0.875 [0.8",
        "First the tiles, then the ring.",
        "filled the model's context",
        "Best speedup 0.875",
        "The answer held no kernel.",
        "28,000",
        "$0.4100",
    ):
        assert expected in text, expected


def test_hostile_text_is_shown_and_nowhere_obeyed(tmp_path):
    told = HOSTILE.encode("utf-8", "replace").decode()  # records hold no lone surrogates: JSON cannot
    bad = evaluation("compile", "compile_error", diagnostics=told, message=told)
    records = [turn(n, f"{told}{n}", bad, model=told, variant=told, run=told) for n in (1, 2)]
    folder = write_run(tmp_path / "run", records, (stop(records[-1], f"error:{told}"),))
    result = write_report([folder], tmp_path / "out")
    page = tmp_path / "out" / "trajectories" / "00001.html"
    for path in (result.index, page):
        shown = Page(path)
        assert not {"script", "img"} & set(shown.tags)
        assert "taken" in shown.text
        assert "{{ 7*7 }}" in shown.text
        assert "\x1b" not in shown.text
        assert "\u202e" not in shown.text
    assert "-</pre></details><script>" in Page(page).text
    for file in (tmp_path / "out" / "figures").glob("*.svg"):
        names = {element.tag.rpartition("}")[2] for element in ElementTree.parse(file).iter()}
        assert not {"script", "img", "foreignObject"} & names


def test_imported_turns_stand_beside_a_run(tmp_path):
    study = "Original PTXBench: main runs"
    turns = made_trajectory("xTTT", study=study, model="Claude Opus 4.8", run="opus48-gemm")
    assert list(read_imported(write_imported(turns, tmp_path / "table"))) != []
    records = [turn(1, "a", evaluation())]
    write_run(tmp_path / "run", records)
    result = write_report([tmp_path / "table", tmp_path / "run"], tmp_path / "out")
    text = Page(result.index).text
    assert text.index("Runs of this project") < text.index(study)
    assert "These differ:" in text
    assert "did not end" in text


def test_a_simulated_run_says_that_nothing_was_timed(tmp_path):
    records = [turn(1, "a", evaluation("timing", "unavailable", "unknown"))]
    result = write_report([write_run(tmp_path / "run", records)], tmp_path / "out")
    assert "1 correct turns were not timed" in Page(result.index).text
    assert not list((tmp_path / "out" / "figures").glob("*fast*"))


def test_a_run_of_failures_alone_is_a_report_too(tmp_path):
    records = [turn(1, "a", evaluation("compile"), usage=Usage(), model="", policy="replay")]
    result = write_report([write_run(tmp_path / "run", records)], tmp_path / "out")
    assert "replay" in Page(result.index).text


def test_two_runs_of_one_model_are_told_apart(tmp_path):
    folders = [
        write_run(tmp_path / name, [turn(1, "a", evaluation(), run=name, model="new")]) for name in ("first", "second")
    ]
    text = Page(write_report(folders, tmp_path / "out").index).text
    assert "new · first" in text
    assert "new · second" in text


def test_interleaved_trajectories_are_let_go_when_they_end(tmp_path):
    records = [turn(n, "a", evaluation(), trajectory=t) for n, t in ((1, 0), (1, 1), (2, 0), (2, 1), (3, 1))]
    ends = (
        stop(records[2], "policy_done"),
        StopRecord(**(stop(records[2], "x").model_dump() | {"turn": 0, "trajectory": 7})),
    )
    facts = RunFacts("run", tmp_path)
    found = read_trajectories(write_run(tmp_path / "run", records, ends), facts)
    assert [record.trajectory for record in next(found)] == [0, 0]
    assert facts.turns == 3
    assert [record.turn for record in next(found)] == [1, 2, 3]
    assert facts.without_turns == 1


def test_costs_and_tokens_are_counted_and_missing_prices_told(tmp_path):
    records = [turn(1, "a", evaluation()), turn(2, "b", evaluation(), usage=Usage(prompt_tokens=5))]
    facts = RunFacts("run", tmp_path)
    list(read_trajectories(write_run(tmp_path / "run", records), facts))
    assert (facts.tokens, round(facts.cost, 2), facts.unpriced) == (55_005, 0.41, 1)


def test_records_convert_with_what_metrics_need():
    converted = turn_of_record(turn(3, "a", evaluation(speedup=1.25), stop="target_speedup"))
    assert (converted.turn, converted.reasoning_tokens, converted.ended) == (3, 28_000, True)
    assert converted.task == TASK
    assert turn_of_record(turn(1, "a", evaluation(), model="")).reasoning_tokens is None
    assert turn_of_record(turn(1, "a", evaluation(), stop="policy_done"), 2).ended
    assert not turn_of_record(turn(1, "a", evaluation(), stop="context_full")).ended


def test_the_budget_of_a_run_is_its_own(tmp_path):
    run = write_run(tmp_path / "run", [turn(1, "a", evaluation("compile")), turn(2, "b", evaluation())])
    settings = run / "run.json"
    settings.write_text(
        settings.read_text(encoding="utf-8").replace('"max_turns":8', '"max_turns":2'), encoding="utf-8"
    )
    assert "1 of 2 turns" in Page(write_report([run], tmp_path / "out").index).text


def test_a_line_says_what_sets_its_runs_apart_from_what_was_published(tmp_path):
    simulated = DeviceInfo(kind="simulator", name="ptxgym simulator")
    found = evaluation("timing", "unavailable", "unknown", device=simulated)
    records = [turn(1, "a", found, model="new")]
    asked = {"target_speedup": math.inf, "instruction_rule": "paper", "shapes": "all", "regime": "hot"}
    facts = {"max_turns": 3, "knowledge": "full", "env_settings": asked}
    run = write_run(tmp_path / "run", records, (stop(records[0], "passed"),), **facts)
    page = Page(write_report([run], tmp_path / "out").index)
    assert "newsimulator: probe shapes, no times3 turns allowed: ≤1 / ≤3 / ≤3knowledge: full" in page.text
    assert "fulltarget speedup: infinstruction rule: paper" in page.text
    assert "keeps its last result for the turns left" in page.text
    assert "may pass as it is" in page.text


def test_runs_that_differ_under_one_name_say_it_in_their_cells(tmp_path):
    folders = []
    for name, task, level in (("a", TASK, "none"), ("b", "PTXBench-MHAForward-H100", "full")):
        records = [turn(1, "a", evaluation(task=task), run=name, model="new")]
        folders.append(write_run(tmp_path / name, records, (stop(records[0], "policy_done"),), knowledge=level))
    text = Page(write_report(folders, tmp_path / "out").index).text
    row = text[text.index("Turn correctness") :]
    assert row.index("knowledge: none") < row.index("knowledge: full")
    assert "newknowledge" not in row


def test_a_run_that_was_broken_off_has_a_banner(tmp_path):
    other = "PTXBench-MHAForward-H100"
    plan = {"envs": (TASK, other), "variants": {env: {"plain": ""} for env in (TASK, other)}, "trajectories": 2}
    written = write_report([write_run(tmp_path / "run", [turn(1, "a", evaluation())], **plan)], tmp_path / "out")
    assert written.unfinished == (f"run: 1 of 4 trajectories begun, 0 ended; 1 turns of at most 32; none of {other}",)
    assert "Not finished run: 1 of 4 trajectories begun" in Page(written.index).text
    assert "Not finished" not in Page(write_report([whole_run(tmp_path)], tmp_path / "whole").index).text


def whole_run(tmp_path):
    record = turn(1, "a", evaluation())
    return write_run(tmp_path / "done", [record], (stop(record, "turn_budget"),), variants={TASK: {"plain": ""}})


@pytest.mark.parametrize("given", ["absent", "empty", "twice", "same turn"])
def test_what_is_no_run_gets_a_sentence(tmp_path, given):
    record = turn(1, "a", evaluation())
    run = write_run(tmp_path / "run", [record, record] if given == "same turn" else [record])
    if given == "empty":
        (run / "turns.jsonl").write_text("", encoding="utf-8")
    paths = {"absent": [tmp_path / "none"], "twice": [run, run / "turns.jsonl"]}.get(given, [run])
    with pytest.raises(MisuseError, match=r"no run|no turn|twice"):
        write_report(paths, tmp_path / "out")
    assert (tmp_path / "out").exists() == (given == "twice")  # told only by what was read


def test_a_damaged_import_is_named(tmp_path):
    (tmp_path / "imported.jsonl").write_text("{}\n", encoding="utf-8")
    with pytest.raises(MisuseError, match=r"imported.jsonl:1 is no imported turn"):
        write_report([tmp_path], tmp_path / "out")


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    run = write_run(tmp_path / "run", [turn(1, "a", evaluation())])
    (tmp_path / "out").write_text("a file", encoding="utf-8")
    with pytest.raises(InfrastructureError, match="out"):
        write_report([run], tmp_path / "out")


def test_the_commands_say_what_they_wrote(tmp_path):
    import typer

    app = typer.Typer()
    app.command()(report)
    app.command("import-ptxbench")(import_ptxbench)
    table = tmp_path / "table.csv"
    table.write_text(
        "model,arch,definition,run,trajectory_id,turn,reasoning_tokens,correctness,speedup,correct_with_arch\n"
        "GLM-5.2,hopper,gemm_n7168_k5120,glm52-gemm,exp_000,0,12000,Correct,0.5,1\n",
        encoding="utf-8",
    )
    done = CliRunner().invoke(app, ["import-ptxbench", str(table), "--out", str(tmp_path / "imported")])
    assert (done.exit_code, "1 turns of 1 runs" in done.output) == (0, True), done.output
    done = CliRunner().invoke(app, ["report", str(tmp_path / "imported"), "--out", str(tmp_path / "out")])
    assert (done.exit_code, "index.html  1 turns" in done.output) == (0, True), done.output
    back = next(read_imported(tmp_path / "imported"))
    assert isinstance(back, Turn)
    assert math.isnan(back.work_fraction)
