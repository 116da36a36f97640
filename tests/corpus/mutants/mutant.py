"""What a mutant is: a good kernel with one text replaced."""

from __future__ import annotations

from dataclasses import dataclass

from tests.corpus.kernels import GOOD


@dataclass(frozen=True)
class Mutant:
    name: str
    kernel: str
    old: str
    new: str
    codes: tuple[str, ...]
    count: int = 0
    within: str = ""
    """Only after this text, which names the kernel in files that hold several."""

    @property
    def source(self) -> str:
        text = GOOD[self.kernel].source
        start = text.index(self.within) if self.within else 0
        head, body = text[:start], text[start:]
        assert self.old in body, f"{self.name}: {self.old!r} is not in the source"
        if self.count == 0:
            return (
                head + body.replace(self.old, self.new)
                if not self.within
                else head + body.replace(self.old, self.new, 1)
            )
        parts = body.split(self.old)
        return head + self.old.join(parts[: self.count]) + self.new + self.old.join(parts[self.count :])


class Mutants(list[Mutant]):
    """Mutants in the order in which they were added."""

    def add(self, kernel: str, name: str, old: str, new: str, *codes: str, count: int = 0, within: str = "") -> None:
        """Add one; ``count`` says which occurrence of ``old`` (0 for all)."""
        self.append(Mutant(f"{kernel}: {name}", kernel, old, new, codes, count, within))


# -- texts and codes of several files
STALE = ("read-before-arrival",)
SYNC = "__syncthreads();"
WAIT, FENCE = "mbarrier_wait(&bar, 0);", "fence_proxy_async();"
SLIP = "phase-slip"
EMPTY_WAIT, FULL_WAIT = "mbarrier_wait(&empty[s], i / STAGES & 1 ^ 1);", "mbarrier_wait(&full[s], i / STAGES & 1);"
