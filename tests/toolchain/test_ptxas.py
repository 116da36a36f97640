from hypothesis import given
from hypothesis import strategies as st

from ptxgym.toolchain.ptxas import parse_advisories, parse_resources

REPORT = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z5firstPf' for 'sm_90a'
ptxas info    : Function properties for _Z5firstPf
    16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 168 registers, used 9 barriers, 16 bytes cumulative stack size, 1056 bytes smem
ptxas info    : (C7512) Potential Performance Loss: wgmma.mma_async instructions are serialized due to x in '_Z5firstPf'
ptxas info    : (C7599) Something that no table has
ptxas info    : Compiling entry function '_Z6secondPf' for 'sm_90a'
ptxas info    : Function properties for _Z6secondPf
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers
"""


def test_resources_of_every_kernel_are_read():
    first, second = parse_resources(REPORT)
    assert (first.name, first.registers, first.stack_bytes) == ("_Z5firstPf", 168, 16)
    assert (first.spill_store_bytes, first.spill_load_bytes, first.static_shared_bytes) == (8, 12, 1056)
    assert (second.name, second.registers, second.static_shared_bytes) == ("_Z6secondPf", 8, 0)


def test_known_advisories_are_explained_and_others_keep_their_words():
    known, unknown = parse_advisories(REPORT)
    assert (known.code, "out of registers" in known.meaning) == ("C7512", True)
    assert (unknown.code, unknown.meaning) == ("C7599", "Something that no table has")


def test_a_comment_in_a_source_is_no_advisory():
    assert parse_advisories('kernel.cu(3): warning: (C7512) "ptxas info : (C7512) x"') == ()


@given(st.text())
def test_any_text_is_read_without_an_exception(text: str):
    parse_resources(text)
    parse_advisories(text)
