#!/usr/bin/env bash
# Everything that only a Hopper GPU can show, in the order of its worth, each part within its time:
#
#   benchmarks/on_a_gpu.sh OUT [PART ...]
#
# Writes OUT/PART.txt as it goes, with what else a part makes beside it, and prints the end of each. A part that fails
# or runs out of time does not stop the others. Needs what `make` installs; PYTHON names the interpreter.
set -u
out=$(mkdir -p "$1" && cd "$1" && pwd)
shift
cd "$(dirname "$0")/.." || exit 1
python=${PYTHON:-.venv/bin/python}
[ -x "$python" ] || python=$(command -v python3)
failed=0

part() { # part NAME SECONDS COMMAND...
  local name=$1 seconds=$2 start=$SECONDS
  shift 2
  [ -z "$wanted" ] || [[ " $wanted " == *" $name "* ]] || return 0
  timeout --signal=INT --kill-after=10 "$seconds" "$@" >"$out/$name.txt" 2>&1
  local code=$?
  [ $code -eq 0 ] || failed=1
  printf '\n== %s: exit code %d after %d s\n' "$name" $code $((SECONDS - start))
  tail -n 25 "$out/$name.txt" | cut -c1-220
}

wanted="$*"
suite=("$python" -m pytest -v -m gpu --tb=line -p no:cacheprovider -p no:benchmark)

part attacks 300 "${suite[@]}" -n 6 tests/adversarial --deselect tests/adversarial/test_soak.py::test_a_soak_on_a_gpu
part tests 300 "${suite[@]}" -n 4 tests/gpu
part hardware 120 "$python" -m tests.hardware --keep "$out/hardware.json"
part bench 200 "$python" -m ptxgym bench --json "$out/bench.json"
part kernels 200 "$python" -m ptxgym bench kernels --json "$out/kernels.json" --page "$out/results-hopper.md"
part oracle 200 "$python" -m ptxgym run --env 'PTXBench-*-H100*' --policy oracle --knowledge none --out "$out/oracle"
part report 60 "$python" -m ptxgym report "$out/oracle" --out "$out/report"
part tile 400 "$python" -m benchmarks.tile_policy --out "$out/tile"
part lora 150 "$python" -m benchmarks.fixit_train --json "$out/fixit.json"
part parts 150 "$python" -m benchmarks.verdict_parts
part neighbours 150 "$python" -m benchmarks.neighbours
part soak 1200 "$python" -m tests.adversarial.soak --device cuda --evaluations 300 --seed 7 --log "$out/soak.jsonl"
exit $failed
