"""A figure as pixels, for places that take no SVG."""

from __future__ import annotations

import re

import resvg_py

_SCALE = 2
"""Pixels per unit, so that a figure is sharp in print and on dense screens."""


def png_of(svg: str) -> bytes:
    """Render a figure file in its light colours.

    Args:
        svg: As :func:`ptxgym.report.page.figure_file` gives it: colours are CSS variables, light ones first.
    """
    return bytes(resvg_py.svg_to_bytes(svg_string=_in_light_colours(svg), zoom=_SCALE))


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
