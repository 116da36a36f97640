"""A reasoning from what the simulator found, without any teacher: finding, contract, line, change.

Everything in it stands in the feedback, in the failing kernel, or in ``knowledge/``; the change is the difference that
was verified.
"""

from __future__ import annotations

from baselines.fixit.contracts import Contract, Finding, contract_of, contracts
from baselines.fixit.findings import findings_of
from baselines.fixit.records import Failure, Pair
from baselines.fixit.sources import changed_lines

_MOST_LINES = 12


def explain(pair: Pair) -> str:
    """The way from the finding to the fix; empty where nothing says what was broken."""
    failure = pair.failure
    if failure is None:
        return ""
    finding = _finding(pair, failure)
    contract = _contract(pair, finding)
    if finding is None and contract is None:
        return ""
    wrong, right = changed_lines(failure.source, pair.kernel)
    parts = [
        _seen(failure, finding),
        _place(failure, finding),
        _rule(contract),
        _change(wrong, right),
        _check(finding, contract),
    ]
    return "\n\n".join(part for part in parts if part)


def _finding(pair: Pair, failure: Failure) -> Finding | None:
    """The one that shows the broken contract where it is known, else the first."""
    found = findings_of(failure.evaluation)
    wanted = [finding for finding in found if pair.broken and finding.text == pair.broken.finding]
    return next(iter(wanted or found), None)


def _contract(pair: Pair, finding: Finding | None) -> Contract | None:
    if pair.broken and pair.broken.contract:
        return contracts().get(pair.broken.contract)
    return contract_of(finding.code) if finding else None


def _seen(failure: Failure, finding: Finding | None) -> str:
    status = failure.error_class.replace("_", " ")
    if finding is None:
        first = next((line for line in failure.feedback.splitlines() if line.strip()), status)
        return (
            f"My kernel compiles and no check names a line, but it fails: {first.strip()} Wrong numbers without a "
            "finding point at what is computed rather than at who waits for whom, so I go through layouts, offsets "
            "and bounds."
        )
    verdict = (
        "My kernel passes, but with a warning" if status == "finding" else f"The verdict on my kernel is: {status}"
    )
    return f"{verdict}. The finding is exact, so I start there: {finding.text}"


def _place(failure: Failure, finding: Finding | None) -> str:
    lines = failure.source.splitlines()
    if finding is None or not 0 < finding.line <= len(lines):
        return ""
    line = lines[finding.line - 1].strip()
    return (
        f"Line {finding.line} of my source is `{line}`. That is where the fault shows; its cause may lie earlier, in "
        "what should have happened before this line."
        if line
        else ""
    )


def _rule(contract: Contract | None) -> str:
    if contract is None:
        return ""
    otherwise = f" When that is broken, what one sees is: {contract.otherwise}" if contract.otherwise else ""
    return f"What has to hold here: {contract.rule}{otherwise}"


def _change(wrong: str, right: str) -> str:
    if wrong.strip() and right.strip():
        return (
            f"In my kernel this is not so. I have\n\n{_quote(wrong)}\n\nand it has to be\n\n{_quote(right)}\n\n"
            "Nothing else depends on the old form, so I change these lines alone."
        )
    if right.strip():
        return f"Going through my kernel with that in mind, something is missing. I have to add\n\n{_quote(right)}"
    return f"Going through my kernel with that in mind, something is too much. I have to take out\n\n{_quote(wrong)}"


def _check(finding: Finding | None, contract: Contract | None) -> str:
    what = f"the cause of {finding.code}" if finding else "the cause of the wrong numbers"
    kept = f" and contract {contract.id} holds" if contract else ""
    return f"With that {what} is gone{kept}; the rest of the kernel stays as it is, and I submit the whole file again."


def _quote(text: str) -> str:
    lines = text.splitlines()
    shown = lines[:_MOST_LINES] + ["// …"] * (len(lines) > _MOST_LINES)
    return "```cpp\n" + "\n".join(shown) + "\n```"
