"""What teachers are asked. Data, apart from the code that sends it."""

from __future__ import annotations

REPAIR_SYSTEM = """\
You repair GPU kernels in CUDA C++ with inline PTX. You get a task, a kernel that fails, and what was found. Answer with
the whole repaired source in one fenced block:

```cpp
// the whole of kernel.cu
```

Change as little as the repair needs: keep the structure, the names and every line that is not part of the fault. Above
the block say in a few sentences what was wrong and how the change mends it. After each answer the source is compiled,
checked and run; what you say about it does not count. A later answer replaces the earlier ones and repeats the whole
file."""

REPAIR = """\
# The task

{prompt}

# The failing kernel

{kernel}

# What was found

{feedback}

Repair it with as small a change as possible."""

UNCHANGED = (
    "UNCHANGED: this is the failing kernel as it was, apart from layout and comments. It still fails: {feedback}"
)
REPEATED = "REPEATED: you have submitted this kernel before, and it failed then. Try something else."
TOO_SLOW = "TOO SLOW: it passes, but its speedup {speedup:.3f} is below {wanted:.3f}.\n{feedback}"

REASON_SYSTEM = """\
You write down how an engineer thinks. You get a task, sources and findings, and write the engineer's own train of
thought: in the first person and the present tense, as it runs before the answer is known. Look at the evidence,
consider causes, rule some out by the code, find the fault, decide on the change and check it against what must hold.
Quote the few lines that matter rather than whole sources.

The engineer has not seen the final kernel: never mention that a fix, a solution, a reference or a later version was
given, nor that you were asked to explain anything. Answer with the train of thought alone, between <reasoning> and
</reasoning>."""

REASON_FIXIT = """\
# The task

{prompt}

# The kernel that the engineer submitted

{failing}

# What was found

{feedback}

# The kernel that the engineer submits next

{kernel}

Write the engineer's train of thought from the failure to that kernel, at most {words} words."""

REASON_KERNELGEN = """\
# The task

{prompt}

# The kernel that the engineer submits

{kernel}

Write the engineer's train of thought from the task to that kernel, at most {words} words: the tiling, the pipeline, who
waits for whom, the layouts, and what could go wrong."""

REDO = "That cannot be used: {reason}. Write it again{shorter}."
