"""Hostile text is shown, never obeyed; differences are found quickly or not at all."""

import time
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from ptxgym.report.text import difference, lines, visible

any_text = st.text(st.characters(codec=None))  # lone surrogates too


@given(any_text)
def test_nothing_invisible_is_left(text):
    shown = visible(text)
    shown.encode("utf-8")
    left = {unicodedata.category(c) for c in shown if c not in "\n\t"}
    assert not left & {"Cc", "Cs"}
    assert not set(shown) & set("\u202e\u202d\u2066\u2069\u200b\u200f\ufeff")


def test_ordinary_text_is_left_alone():
    text = "for (int k = 0; k < K; ++k) { // α·β ≤ 1, “weiß”, 日本\n\t}"
    assert visible(text) == text


def test_what_hides_or_reorders_is_named():
    assert visible("a\u202eb\x1b[31m\x00\ud800") == "a⟦U+202E⟧b␛[31m␀⟦U+D800⟧"


def test_lines_are_those_of_the_compiler():
    assert lines("a\r\nb\x0bc\u2028d\n") == ["a", "b␋c\u2028d", ""]


def test_a_difference_shows_what_changed():
    found = difference("a\nb\nc", "a\nB\nc")
    assert [(line.kind, line.text) for line in found] == [
        ("hunk", "@@ -1,3 +1,3 @@"),
        ("same", " a"),
        ("del", "-b"),
        ("add", "+B"),
        ("same", " c"),
    ]


def test_lines_that_look_like_headers_are_lines():
    found = difference("x", "--- a\n+++ b\n@@ c")
    assert [line.text for line in found if line.kind == "add"] == ["+--- a", "++++ b", "+@@ c"]


@given(any_text, any_text)
def test_a_difference_holds_every_added_line(before, after):
    found = difference(before, after)
    old, new = lines(before), lines(after)
    assert (found == []) == (old == new)
    added = [line.text[1:] for line in found if line.kind == "add"]
    assert set(new) - set(old) <= set(added)


def test_sources_made_to_take_long_do_not():
    start = time.monotonic()
    for period in (2, 60, 99, 100, 400):
        text = [f"line {number % period}" for number in range(3000)]
        difference("\n".join(text), "\n".join(reversed(text)))
        difference("\n".join(text[:190]), "\n".join(reversed(text[:190])))
    assert difference("x\n" * 5000, "y\n" * 5000) is None
    assert time.monotonic() - start < 10
