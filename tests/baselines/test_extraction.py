"""Which kernel is taken out of an answer."""

import contextlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines.mini_ptx_agent import Answer, UnusableAnswer, extract_kernel

KERNEL = """\
#include <cuda_bf16.h>
// A comment with an unmatched brace: {
__global__ void kernel(float* C) { if (C) { C[0] = '{'; } const char* s = "}}"; /* } */ }
extern "C" cudaError_t run(float* C, int M, cudaStream_t stream) {
  kernel<<<1, 1, 0, stream>>>(C);
  return cudaGetLastError();
}
"""
OTHER = KERNEL.replace("C[0] = '{'", "C[0] = 2")
HELPER = "__device__ int helper() { return 1; }\n"


def fenced(source, language="cpp", marks="```"):
    return f"{marks}{language}\n{source}{marks}\n"


def extract(text, **fields):
    return extract_kernel(Answer(text, **fields))


@pytest.mark.parametrize("language", ["cpp", "cuda", "c++", "", "cu title=kernel.cu", "CUDA"])
def test_a_fenced_block(language):
    assert extract(f"Here it is.\n\n{fenced(KERNEL, language)}\nIt should work.") == KERNEL


@pytest.mark.parametrize("marks", ["~~~", "````"])
def test_other_fences(marks):
    assert extract(fenced(KERNEL, marks=marks)) == KERNEL


def test_a_longer_fence_may_hold_a_shorter_one():
    source = KERNEL + "/*\n```\nnotes\n```\n*/\n"
    assert extract(fenced(source, marks="````")) == source


def test_the_last_of_several_kernels():
    assert extract(fenced(KERNEL) + "or better\n" + fenced(OTHER)) == OTHER


def test_blocks_that_are_no_kernel_are_passed_over():
    assert (
        extract(fenced("nvcc kernel.cu\n", "sh") + fenced(KERNEL) + fenced(HELPER) + fenced("print()\n", "py"))
        == KERNEL
    )


def test_the_last_whole_kernel_of_an_answer_that_was_cut_off():
    cut = fenced(KERNEL) + "now better:\n```cpp\n" + OTHER[:200]
    assert extract(cut, finish="length") == KERNEL


def test_cut_anywhere_it_gives_the_whole_kernel_or_none():
    for length in range(len(OTHER)):
        cut = fenced(KERNEL) + "```cpp\n" + OTHER[:length]
        assert extract(cut, finish="length") in (KERNEL, OTHER.rstrip())


def test_a_whole_kernel_without_its_closing_fence():
    assert extract("```cpp\n" + KERNEL) == KERNEL
    assert extract("```cpp\n" + KERNEL + "\nand again\n" + fenced(OTHER)) == OTHER


def test_a_closed_block_is_submitted_even_when_its_braces_do_not_match():
    broken = KERNEL + "}\n"
    assert extract(fenced(broken)) == broken


def test_a_bare_source():
    assert extract(KERNEL) == KERNEL
    assert extract(f"Sure, here is the kernel:\n\n{KERNEL}\nThis uses one thread.\n") == KERNEL


def test_windows_line_ends():
    assert extract(fenced(KERNEL).replace("\n", "\r\n")) == KERNEL


def test_a_kernel_that_exports_the_tvm_entry():
    source = "void run(TensorView a) { }\nTVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);\n"
    assert extract(fenced(source)) == source


def test_a_script_submits_what_it_wants():
    assert extract_kernel(Answer("whatever", source="int x;")) == "int x;"


@pytest.mark.parametrize(
    ("text", "finish", "complaint"),
    [
        ("", "stop", "empty"),
        ("  \n ", "stop", "empty"),
        ("I would rather not.", "stop", "no source"),
        ("", "refusal", "refused"),
        ("", "content_filter", "refused"),
        ("", "tool_calls", "no"),
        (f"```cpp\n{KERNEL[:150]}", "length", "cut off"),
        (KERNEL[:-3], "length", "cut off"),
        (fenced(HELPER), "stop", "exports run"),
        (f"```cpp\n{KERNEL[:-3]}", "stop", "exports run"),
    ],
)
def test_an_unusable_answer_says_what_is_wrong_with_it(text, finish, complaint):
    with pytest.raises(UnusableAnswer) as raised:
        extract(text, finish=finish)
    (message,) = raised.value.messages
    assert message["role"] == "user"
    assert complaint in message["content"]


FENCES = ["```", "```cpp\n", "```\n", "~~~\n"]
PIECES = st.sampled_from([*FENCES, KERNEL, OTHER[:90], "text\n", "{", "}", '"', "'", "/*", "//", 'R"(', "\n"])


@given(st.lists(st.one_of(PIECES, st.text(max_size=20)), max_size=12))
def test_whatever_is_answered_gives_a_part_of_it_or_a_complaint(pieces):
    text = "".join(pieces)
    try:
        source = extract(text)
    except UnusableAnswer:
        return
    assert source.rstrip("\n") in text.replace("\r\n", "\n")
    assert "run(" in source


REPEATED = ["/* ", "```cpp\n", '"', "'", 'R"(', "{", 'extern "C" run(', "#include\n", "`", "//\n"]


@pytest.mark.parametrize("piece", REPEATED)
def test_an_answer_that_repeats_itself_for_a_megabyte_takes_no_time(piece):
    text = 'extern "C" run(' + piece * (1_000_000 // len(piece))
    start = time.monotonic()
    for answer in (text, f"```cpp\n{text}\n```", f"```cpp\n{text}"):
        with contextlib.suppress(UnusableAnswer):
            extract(answer)
    assert time.monotonic() - start < 6
