"""Messages of TorchInductor, AOTInductor and the C++ compiler. Plain data: to add one, add an `Entry`."""

from __future__ import annotations

from edgex.explain.entry import Entry

MESSAGES: tuple[Entry, ...] = (
    Entry(
        "no-cxx-compiler",
        "aoti",
        r"No working C\+\+ compiler found in torch\._inductor\.config\.cpp\.cxx",
        "TorchInductor writes C++ and found no compiler for it.",
        "sudo apt install g++, or name a compiler in CXX; edgex targets says which one is used",
        ("pytorch/pytorch#92745",),
    ),
    Entry(
        "cxx-compile-error",
        "aoti",
        r"CppCompileError|^C\+\+ compile error",
        "The C++ compiler refused what TorchInductor wrote. Its own lines follow, under `Output:`.",
        "read the first line with `error:` under it; g++ 11 or newer is needed, and the headers of Python",
        ("pytorch/pytorch#152172", "pytorch/pytorch#130815"),
        general=True,
    ),
    Entry(
        "python-headers-missing",
        "aoti",
        r"fatal error: '?Python\.h'?(?:: No such file or directory| file not found)",
        "What TorchInductor compiles includes Python's headers, which many systems install apart from Python.",
        "sudo apt install python3-dev, for the version of Python that runs edgex",
        ("pytorch/pytorch#129351", "pytorch/pytorch#97146"),
        quote="/tmp/example/main.c:4:10: fatal error: Python.h: No such file or directory",
    ),
    Entry(
        "aoti-package-unreadable",
        "aoti",
        r"Failed to initialize zip archive",
        "The .pt2 is not there or is no package of AOTInductor: cut off while it was copied, or a Git LFS pointer.",
        "edgex inspect ARTIFACT checks the file against the manifest; copy it again, or export the model again",
    ),
    Entry(
        "aoti-other-torch",
        "aoti",
        r"Error in dlopen: .*undefined symbol: (?P<name>\w+)",
        "The compiled library calls a function that this torch does not have: it was compiled with another version, or "
        "with another C++ ABI.",
        "run it with the torch that compiled it (edgex inspect ARTIFACT names it), or export the model again",
        ("pytorch/pytorch#122313",),
        quote="Error in dlopen: /tmp/example/model.so: undefined symbol: "
        "_ZN3c107WarningC1ESt7variantIJNS0_11UserWarningENS0_18DeprecationWarningEEERKNS_14SourceLocationESsb",
    ),
    Entry(
        "newer-system-libraries",
        "aoti",
        r"version [`'](?P<name>GLIBC\w*_[\d.]+|CXXABI_[\d.]+)' not found",
        "The library was compiled on a newer Linux than this: its C or C++ library lacks what the code asks for.",
        "compile on the oldest system that has to run it: edgex export MODEL -t aoti there",
        ("intel/ipex-llm#8259",),
        quote="OSError: /lib/x86_64-linux-gnu/libstdc++.so.6: version `GLIBCXX_3.4.29' not found (required by "
        "libllama_avx512.so)",
    ),
)
