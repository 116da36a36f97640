import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxgym.toolchain import MAX_SOURCE_BYTES, SourceRefusedError, read_source


@pytest.mark.parametrize(
    ("action", "complaint"),
    [
        (None, "NoneType"),
        (b"int x;", "bytes"),
        (7, "int"),
        ("", "empty"),
        (" \n\t", "empty"),
        ("```cuda\n\n```", "empty"),
        ("int x;\0", "NUL"),
        ("x" * (10 << 20), "1,048,576 bytes"),
        ("é" * (MAX_SOURCE_BYTES // 2 + 1), "1,048,576 bytes"),
        ("\ud800", "surrogates"),
        ('#include "/etc/passwd"', "absolute or parent path"),
        ("  #  include <../../secret.h>", "absolute or parent path"),
        ('#embed "/etc/passwd"', "absolute or parent path"),
        ('asm(".incbin \\"/etc/passwd\\"");', ".incbin"),
    ],
)
def test_what_is_no_source_is_refused_with_a_sentence(action: object, complaint: str):
    with pytest.raises(SourceRefusedError, match=complaint):
        read_source(action)


@pytest.mark.parametrize(
    "text",
    [
        "// 中文 и кириллица café 🙂\nint x;",
        '#include <cuda_bf16.h>\n#include "cuda.h"\nint x;',
        "int a = b /* ../.. */;",
        'const char* s = "#include nothing";',
        "x" * MAX_SOURCE_BYTES,
    ],
)
def test_honest_sources_pass_unchanged(text: str):
    assert read_source(text).text == text


@pytest.mark.parametrize("fence", ["```", "```cuda", "```c++", "  \n```cpp  "])
def test_a_fence_around_the_source_is_taken_off_and_said(fence: str):
    source = read_source(f"{fence}\nint x;\n```\n")
    assert source.text == "int x;"
    assert "fence" in source.notes[0]


def test_a_fence_inside_a_comment_stays():
    text = "// ```\nint x;\n// ```"
    assert read_source(text).text == text


def test_flags_name_what_is_suspicious_and_never_refuse():
    text = 'void* h = dlopen("libcublas.so", 1); long t = clock64(); static int calls = 0;'
    assert set(read_source(text).flags()) >= {"loads_libraries", "mentions_library", "reads_clocks", "host_state"}
    assert read_source("__global__ void stream_kernel(int bypass) {}").flags() == ()


@given(st.one_of(st.none(), st.binary(), st.integers(), st.text()))
def test_any_action_is_a_source_or_refused(action: object):
    with contextlib.suppress(SourceRefusedError):
        assert read_source(action).text.strip()
