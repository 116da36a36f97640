"""One sentence for a framework that is not installed."""

from __future__ import annotations

from ptxgym.errors import MissingToolError


class MissingExtraError(MissingToolError, ImportError):
    """An optional package is missing; also an ``ImportError``, which is what importers look for."""


def missing_extra(package: str, extra: str) -> MissingExtraError:
    """The error for a package that an extra of ptxgym brings.

    >>> raise missing_extra("skyrl-gym", "skyrl")
    Traceback (most recent call last):
    ptxgym.integrations.extras.MissingExtraError: skyrl-gym was not found. Install it with: pip install 'ptxgym[skyrl]'
    """
    return MissingExtraError(package, f"Install it with: pip install 'ptxgym[{extra}]'")
