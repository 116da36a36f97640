"""Places that a command writes to, looked at before the work whose result goes there."""

from __future__ import annotations

from pathlib import Path

from ptxgym.errors import MisuseError


def check_appendable(path: Path, option: str) -> None:
    """Say before any work that a file cannot be written. It is made where there is none, and else left as it is.

    Args:
        path: The file.
        option: What asked for it, for the message.

    Raises:
        MisuseError: It cannot be opened.
    """
    try:
        path.open("ab").close()
    except OSError as error:
        raise MisuseError(f"{option} {path} cannot be written: {error.strerror}.") from None


def check_replaceable(path: Path, option: str) -> None:
    """The same of a file that is replaced whole, so that nothing is left behind under its name.

    Raises:
        MisuseError: It cannot be written.
    """
    if path.is_dir():
        raise MisuseError(f"{option} {path} cannot be written: it is a folder.")
    draft = path.with_name(f"{path.name}.check")
    try:
        draft.open("xb").close()
        draft.unlink()
    except FileExistsError:  # another command is looking
        return
    except OSError as error:
        raise MisuseError(f"{option} {path} cannot be written: {error.strerror}.") from None
