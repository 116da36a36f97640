"""Times ``ptxgym fixit build``: 10,000 records of the size of real repairs, with the checks of a student's tokenizer.

Run with ``python -m benchmarks.fixit`` from the root of the repository. The records are synthetic: two kernels of 12 KB
each, a reasoning of 6 KB, and a whole evaluation of either. Prints seconds, records per second, and the process's peak
memory for a tenth of the records and for all of them; flat means that the two are nearly the same. Processor time is
what counts when the machine is shared.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from baselines.fixit.build import BuildSettings, build
from baselines.fixit.records import Reasoning
from baselines.fixit.sources import code_id
from baselines.fixit.student import Student
from tests.fixit.doubles import D64, D128, ROOT, THOUGHT, evaluation, reasoning, tokenizer, verification, write_lines

SOURCE = (ROOT / "examples" / "kernels" / "hopper" / "gemm.cu").read_text(encoding="utf-8")[:12_000]
ENTRY = '\nextern "C" cudaError_t run(int number) { return cudaError_t(number - %s); }\n'
MOST_SECONDS = 60.0


def records(count: int) -> Iterator[Reasoning]:
    """So many different records, over eight problems."""
    generator = random.Random(0)
    for number in range(count):
        env = (D128 + D64)[number % 8]
        record = reasoning(number, env, ("memory_error", "incorrect")[number % 2])
        broken, fixed = SOURCE + ENTRY % f"{number} + 1", SOURCE + ENTRY % number
        failed = record.pair.failure
        assert failed is not None
        failed = failed.model_copy(
            update={"source": broken, "id": code_id(env, broken), "evaluation": evaluation(env, broken, "memory")}
        )
        text = " ".join(generator.choice(THOUGHT.split(". ")) + "." for _ in range(80)) + " I submit it."
        pair = record.pair.model_copy(
            update={"failure": failed, "kernel": fixed, "verification": verification(env, fixed)}
        )
        yield record.model_copy(update={"pair": pair, "text": text})


def measure(count: int) -> tuple[float, float, float, int]:
    """Seconds, processor seconds, peak MiB, and samples, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder, multiprocessing.get_context("spawn").Pool(1) as pool:
        write_lines(Path(folder) / "work" / "reasons.jsonl", records(count))
        return pool.apply(_build, (Path(folder),))


def _build(folder: Path) -> tuple[float, float, float, int]:
    student = Student(tokenizer())
    start, used = time.perf_counter(), time.process_time()
    record = build([folder / "work"], folder / "data", BuildSettings(student=student))
    seconds, processor = time.perf_counter() - start, time.process_time() - used
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return seconds, processor, peak, record.samples("train") + record.samples("validation")


def main() -> None:
    """Measure, print, and fail when it takes more processor time than one core has in the time allowed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=10_000)
    asked = parser.parse_args().records
    print(f"{'records':>8}  {'samples':>8}  {'seconds':>8}  {'CPU s':>6}  {'records/s':>9}  {'peak MiB':>8}")
    for count in (asked // 10, asked):
        seconds, processor, peak, samples = measure(count)
        print(f"{count:>8}  {samples:>8}  {seconds:>8.1f}  {processor:>6.1f}  {count / seconds:>9.0f}  {peak:>8.0f}")
    if asked >= 10_000 and processor > MOST_SECONDS:
        raise SystemExit(f"more than {MOST_SECONDS:.0f} s")


if __name__ == "__main__":
    main()
