"""Live progress of an evaluation on a terminal; silent where there is none."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.status import Status

from ptxgym.evaluation import StageName, StageResult


class StageProgress:
    """A spinner that names the running stage.

    Args:
        console: Where to draw; usually stderr.
    """

    def __init__(self, console: Console) -> None:
        self._status = Status("starting", console=console) if console.is_terminal else None

    def __enter__(self) -> Self:
        if self._status:
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status:
            self._status.stop()

    def __call__(self, stage: StageName, result: StageResult | None) -> None:
        """Show a stage as it begins."""
        if self._status and result is None:
            self._status.update(stage)
