"""A figure as pixels, for places that take no SVG."""

from __future__ import annotations

import re
from pathlib import Path

import font_source_sans_pro
import resvg_py

_SCALE = 2
"""Pixels per unit, so that a figure is sharp in print and on dense screens."""

_FONTS, _FAMILY = Path(font_source_sans_pro.font_directory), "Source Sans Pro"
"""A font that is installed with us: a GPU host often has none, and text would be left out without a word."""


def png_of(svg: str) -> bytes:
    """Render a figure file in its light colours.

    Args:
        svg: As :func:`ptxgym.report.page.figure_file` gives it: colours are CSS variables, light ones first.
    """
    picture = resvg_py.svg_to_bytes(
        svg_string=_in_light_colours(svg),
        zoom=_SCALE,
        skip_system_fonts=True,
        font_files=[str(_FONTS / f"SourceSansPro-{weight}.ttf") for weight in ("Regular", "Semibold")],
        sans_serif_family=_FAMILY,
    )
    return bytes(picture)


def _in_light_colours(svg: str) -> str:
    """The renderer knows no CSS variables and no media queries."""
    style = re.search(r"<style>(.*?)</style>", svg, re.DOTALL)
    if style is None:
        return svg
    css = re.sub(r"@media[^{]*\{(?:[^{}]*\{[^{}]*\})*[^{}]*\}", "", style[1])
    values = dict(re.findall(r"--([\w-]+):\s*([^;}]+)", css))
    css = re.sub(r":root\s*\{[^}]*\}", "", css)
    css = re.sub(r"var\(--([\w-]+)\)", lambda name: values[name[1]], css)
    return svg.replace(style[1], css)
