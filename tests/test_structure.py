"""The shape of the tree: links, import arrows, names, sizes, and who may touch other people's private names."""

import ast
import sysconfig
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LINKS = {"export": "export", "delegates": "delegates", "runtime": "runtime_py", "samples": "samples"}

# Who may import whom. cli -> export -> delegates -> runtime -> errors; samples are user code: they import edgex only
# as a user would, and their own helper.
LAYERS = {
    "cli": {"cli", "doctor", "explain", "export", "delegates", "runtime", "samples", "errors", "_version", ""},
    "export": {"export", "delegates", "runtime", "errors", "_version"},
    "delegates": {"delegates", "runtime", "errors", "_version"},
    "runtime": {"runtime", "errors", "_version"},
    "samples": {"samples", "runtime", "export", ""},
    "doctor": {"doctor", "runtime", "errors", "_version"},
    "explain": {"explain", "runtime", "errors"},
    "plugin": {"delegates", "runtime", "errors"},
    "errors": set(),
    "_version": set(),
    "__main__": {"cli"},
    # the package itself: lazily, the functions that it offers
    "": {"export", "runtime", "_version"},
}

# Private names of other projects, which any upgrade may move.
PRIVATE_PREFIXES = (
    "torch._",
    "torch.fx._",
    "torch.onnx._",
    "torch.export._",
    "torch.utils._",
    "executorch.exir._",
    "executorch.exir.backend._",
    "executorch.exir.program._",
    "executorch.backends.xnnpack._",
    "executorch.extension.pybindings",
    "onnxruntime.capi",
    "torchao._",
    "litert_torch._",
    "coreai_torch._",
)
# The types of the targets that a graph's nodes have: without a public name, but part of what torch.export documents.
ALLOWED = {"torch._ops.OpOverload", "torch._ops.OpOverloadPacket", "torch._ops.HigherOrderOperator"}
# Private attributes and methods of other projects' objects that single adapters reach for, or override.
PRIVATE_ATTRIBUTES: dict[str, set[str]] = {
    "edgex.delegates.executorch.edge_passes": {"_generate_edge_program", "_update_placeholder_meta"},
    "edgex.delegates.executorch.exir": {"_named_data_store"},
    "edgex.delegates.executorch.exporter.evaluations": {"_fx"},
    "edgex.delegates.executorch.exporter.initial_state": {"_Emitter", "_tensor_spec_to_evalue"},
    "edgex.delegates.executorch.exporter.lazy_code": {"_code", "_codegen", "_in_spec", "_out_spec"},
    "edgex.delegates.executorch.exporter.shared_constants": {"_maybe_duplicate_constant_nodes"},
    "edgex.delegates.graph.composite_operators": {
        *("_C", "_collect_all_valid_cia_ops", "_dispatch_get_registrations_for_dispatch_key"),
        "_materialize_cpp_cia_ops",
    },
    "edgex.delegates.graph.schema": {"_op", "_schema"},
    "edgex.delegates.graph.torch_internals": {"_C", "_cdata", "_storage_Use_Count"},
    "edgex.delegates.litert.conversion": {"_run_convert_passes"},
    "edgex.delegates.onnxruntime.graph.torch_registry": {"_C", "_dispatch_get_all_op_names", "_opset_version"},
    "edgex.delegates.xnnpack.layout_pass": {"_is_nhwc_tensor"},
    "edgex.delegates.xnnpack.transposed_products": {"_node_visitor_dict"},
    "edgex.delegates.recipes.observers": {"_non_linear_param_search"},
    "edgex.export.capture.diagnosis.guard_lines": {"_log_guard"},
    "edgex.export.capture.torch_internals": {
        *("_buffers", "_guards_code", "_orig_mod", "_parameters", "_validate_args", "_version"),
        *("_VF", "_pack_padded_sequence", "_pad_packed_sequence", "_check", "_filter_traceback_frames"),
        *("_is_compiling_flag", "_is_exporting_flag"),
    },
    # Documented for users, whatever its name.
    "edgex.export.language_model.valid_prefix": {"_check"},
    "edgex.export.quantization.pt2e": {"_annotated", "_fold_conv_bn_qat"},
    # Operators of PyTorch's own.
    "edgex.export.rewrites.attention.windows": {"_unsafe_view"},
    "edgex.export.rewrites.matrices.small": {"_linalg_solve_ex", "_linalg_det", "_linalg_slogdet"},
    "edgex.export.rewrites.numbers.conversions": {"_to_copy"},
    "edgex.export.rewrites.numbers.early": {"_to_copy"},
    "edgex.export.rewrites.operators.elementary": {"_is_all_true", "_is_any_true"},
    "edgex.export.rewrites.products.distances": {"_cdist_forward"},
    "edgex.export.rewrites.images.rows": {
        *("_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d"),
    },
    "edgex.export.rewrites.products.resizes": {
        *("_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa", "_upsample_nearest_exact1d"),
        *("_upsample_nearest_exact2d", "_upsample_nearest_exact3d"),
    },
    "edgex.export.source.leaves": {"_get_node_type"},
    "edgex.runtime.engines.coreai.waiting": {
        *("_asyncio_future_blocking", "_get_running_loop", "_set_running_loop"),
    },
    "edgex.runtime.engines.litert.binding": {"_get_full_signature_list", "_get_ops_details", "_interpreter"},
    "edgex.runtime.engines.torch.pt2.operators": {"_ops", "_schema"},
    "edgex.runtime.engines.executorch.binding": {
        *("_get_operator_names", "_get_registered_backend_names", "_load_program", "_threadpool_get_thread_count"),
        "_unsafe_reset_threadpool",
    },
}
FOREIGN = ("torch", "executorch", "torchao", "onnxruntime")
# Of `delegates`, export knows the contract and what all delegates share, no backend.
EXPORT_MAY_IMPORT = ("base", "plan", "registry", "graph", "recipes")

# The modules that alone may use the others.
PRIVATE_ADAPTERS: dict[str, tuple[str, ...]] = {
    "edgex.delegates.aoti.compilation": ("torch._inductor",),
    "edgex.delegates.graph.composite_operators": ("torch._export", "torch._C"),
    "edgex.delegates.executorch.edge_passes": ("executorch.exir.program._program",),
    "edgex.delegates.onnxruntime.graph.torch_registry": ("torch.onnx._internal", "torch._C"),
    "edgex.delegates.coreai.conversion": ("coreai_torch._aten_to_core",),
    "edgex.delegates.litert.conversion": ("litert_torch._convert",),
    "edgex.delegates.graph.torch_internals": (
        "torch._subclasses.fake_tensor",
        "torch.utils._pytree",
        "torch.utils._python_dispatch",
        "torch._C",
    ),
    "edgex.delegates.xnnpack.layout_pass": ("executorch.backends.xnnpack._passes",),
    "edgex.delegates.xnnpack.pad_pass": ("executorch.backends.xnnpack._passes",),
    "edgex.delegates.xnnpack.pattern_passes": ("executorch.backends.xnnpack._passes",),
    "edgex.delegates.xnnpack.permute_pass": ("executorch.backends.xnnpack._passes",),
    "edgex.delegates.executorch.exporter.weight_copies": ("executorch.exir._serialize",),
    "edgex.delegates.xnnpack.serialized": ("executorch.exir._serialize",),
    "edgex.export.capture.shape_sources": ("torch._dynamo.source",),
    "edgex.export.capture.torch_internals": (
        "torch.utils._sympy",
        "torch.utils._python_dispatch",
        "torch._C.DisableTorchFunction",
        "torch._VF",
        "torch._check",
    ),
    "edgex.export.language_model.valid_prefix": ("torch._check",),
    "edgex.runtime.engines.aoti.binding": ("torch._C._aoti",),
    "edgex.runtime.engines.executorch.binding": ("executorch.extension.pybindings",),
    "edgex.runtime.engines.torch.pt2.document": ("torch._export.serde",),
}

# What starts a process.
STARTERS = {
    *(f"subprocess.{name}" for name in ("run", "Popen", "call", "check_call", "check_output")),
    *("os.system", "os.popen", "os.spawnv", "multiprocessing.Process", "asyncio.create_subprocess_exec"),
}

# What makes a temporary file with a name: a process that is killed leaves it.
TEMPORARIES = {f"tempfile.{name}" for name in ("TemporaryDirectory", "NamedTemporaryFile", "mkdtemp", "mkstemp")}

# Inside edgex.runtime: each folder may import itself and those before it.
RUNTIME_ORDER = ("support", "artifact", "supply", "generation", "session", "engines", "execute", "measure", "report")

MAX_FILES = 12  # of a folder's own: with more, it has a second idea
MAX_LINES = 500
MAX_TEST_LINES = 700  # a table of cases may be long


def source_files():
    """Every module of the package, by dotted name, from the real folders."""
    found = {}
    for name, folder in LINKS.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            found[".".join(("edgex", name, *(p for p in parts if p != "__init__")))] = path
    own = sorted(path for name in ("cli", "doctor", "explain") for path in (ROOT / "src/edgex" / name).rglob("*.py"))
    for path in sorted((ROOT / "src" / "edgex").glob("*.py")) + own:
        parts = path.relative_to(ROOT / "src").with_suffix("").parts
        found[".".join(p for p in parts if p != "__init__")] = path
    return found


FILES = source_files()


@cache
def tree_of(path):
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def imports_of(path):
    """(dotted name, line) of everything that a module imports, wherever it stands."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            for alias in node.names:
                yield f"{node.module}.{alias.name}", node.lineno


def layer_of(module):
    """`edgex.runtime.session.session` -> `runtime`; the package's own names -> ``."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in LAYERS else ""


def test_files_are_found():
    assert {"edgex", "edgex.errors", "edgex.runtime.session.session", "edgex.delegates.base"} <= FILES.keys()
    assert all(path.is_file() and not path.is_symlink() for path in FILES.values())


@pytest.mark.parametrize(("name", "folder"), LINKS.items())
def test_links_are_links_and_resolve(name, folder):
    link = ROOT / "src" / "edgex" / name
    assert link.is_symlink(), f"{link} must be a link to ../../{folder}"
    assert link.readlink() == Path("../..") / folder
    assert (link / "__init__.py").is_file()


def test_every_folder_of_modules_is_a_package():
    for path in FILES.values():
        assert (path.parent / "__init__.py").is_file(), f"{path.parent} lacks __init__.py: the wheel would miss it"


def test_arrows_run_one_way():
    wrong = []
    for module, path in FILES.items():
        allowed = LAYERS[layer_of(module)]
        for name, line in imports_of(path):
            if name.split(".")[0] == "edgex" and layer_of(name) not in allowed:
                wrong.append(f"{path.relative_to(ROOT)}:{line}: {module} imports {name}")
    assert not wrong, "\n".join(wrong)


def test_export_knows_no_backend():
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {module} imports {name}"
        for module, path in FILES.items()
        if layer_of(module) == "export"
        for name, line in imports_of(path)
        if name.startswith("edgex.delegates.") and name.split(".")[2] not in EXPORT_MAY_IMPORT
    ]
    assert not wrong, "\n".join(wrong)


def test_arrows_inside_runtime_run_one_way():
    wrong = []
    for module, path in FILES.items():
        place = _runtime_place(module)
        for name, line in imports_of(path) if place is not None else ():
            if (_runtime_place(name) or 0) > place:
                wrong.append(f"{path.relative_to(ROOT)}:{line}: {module} imports {name}")
    assert not wrong, f"the order is {' <- '.join(RUNTIME_ORDER)}\n" + "\n".join(wrong)


def _runtime_place(module):
    """Where a module of edgex.runtime stands in `RUNTIME_ORDER`; None for any other."""
    parts = module.split(".")
    return RUNTIME_ORDER.index(parts[2]) if parts[:2] == ["edgex", "runtime"] and len(parts) > 2 else None


def test_no_file_imports_itself_by_way_of_others():
    """Imports for type checking count too: a file can then be read after those that it names."""
    graph = {
        module: {_module_of(name) for name, _ in imports_of(path)} & FILES.keys() for module, path in FILES.items()
    }
    while True:
        ends = {module for module, needed in graph.items() if not needed - {module}}
        if not ends:
            break
        graph = {module: needed - ends for module, needed in graph.items() if module not in ends}
    cycle = _walk_in_circles(graph) if graph else []
    assert not graph, " -> ".join(cycle)


def _module_of(name):
    """The module that an imported name is, or is in."""
    return name if name in FILES else name.rpartition(".")[0]


def _walk_in_circles(graph):
    """One cycle of a graph in which every module imports another one that is left."""
    seen = [next(iter(sorted(graph)))]
    while True:
        following = next(name for name in sorted(graph[seen[-1]]) if name != seen[-1])
        if following in seen:
            return [*seen[seen.index(following) :], following]
        seen.append(following)


def test_folders_hold_one_idea():
    counts = Counter(path.parent for path in FILES.values())
    for pattern in ("*.cpp", "*.h"):
        counts.update(path.parent for name in LINKS.values() for path in (ROOT / name).rglob(pattern))
    counts.update(path.parent for path in (ROOT / "benchmarks").rglob("*.py"))
    crowded = {str(folder.relative_to(ROOT)): count for folder, count in counts.items() if count > MAX_FILES}
    assert not crowded, f"at most {MAX_FILES} files a folder: {crowded}"


def test_tests_mirror_the_tree():
    """tests/runtime/session holds what is about edgex.runtime.session; what is about all of edgex lies in tests/."""
    apart = {"support", "plugins", "android", "fuzz", "samples", "benchmarks"}
    packages = {
        module.split(".", 1)[1].replace(".", "/")
        for module, path in FILES.items()
        if path.stem == "__init__" and "." in module
    }
    folders = {path.parent.relative_to(ROOT / "tests").as_posix() for path in (ROOT / "tests").rglob("test_*.py")} - {
        "."
    }
    strange = sorted(folder for folder in folders if folder.split("/")[0] not in apart and folder not in packages)
    assert not strange, f"no such folders in the tree: {strange}"


def test_no_bare_import_of_our_folders():
    bare = {"export", "delegates", "runtime_py", "samples"}
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in [*FILES.values(), *sorted((ROOT / "tests").rglob("*.py"))]
        for name, line in imports_of(path)
        if name.split(".")[0] in bare
    ]
    assert not wrong, "\n".join(wrong)


def test_a_function_never_shares_its_modules_name():
    wrong = []
    for module, path in FILES.items():
        for node in tree_of(path).body:
            named = isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == module.rpartition(".")[2]
            # edgex.cli.main:main is what the installed command calls; nobody re-exports it.
            if named and module != "edgex.cli.main":
                wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}: {node.name}")
    assert not wrong, "\n".join(wrong)


def test_every_module_has_a_docstring():
    wrong = [str(path.relative_to(ROOT)) for path in FILES.values() if not ast.get_docstring(tree_of(path))]
    assert not wrong, wrong


def test_files_stay_short():
    limits = dict.fromkeys(FILES.values(), MAX_LINES)
    limits |= dict.fromkeys((ROOT / "benchmarks").rglob("*.py"), MAX_LINES)
    limits |= dict.fromkeys((ROOT / "tests").rglob("*.py"), MAX_TEST_LINES)
    lines = {path: len(path.read_text().splitlines()) for path in limits}
    long = {str(path.relative_to(ROOT)): lines[path] for path, limit in limits.items() if lines[path] > limit}
    assert not long, f"what is the second idea of each? {long}"


def test_private_names_stay_in_their_adapters():
    wrong = []
    for module, path in FILES.items():
        for name, line in private_names(path):
            if not name.startswith(PRIVATE_ADAPTERS.get(module, ())):
                wrong.append(f"{path.relative_to(ROOT)}:{line}: {module} uses {name}")
    assert not wrong, "\n".join(wrong)


def test_every_listed_adapter_still_needs_its_place():
    for module, prefixes in PRIVATE_ADAPTERS.items():
        used = {name for name, _ in private_names(FILES[module])}
        for prefix in prefixes:
            assert any(name.startswith(prefix) for name in used), f"{module} no longer uses {prefix}: strike it off"


def test_private_attributes_stay_in_their_adapters():
    wrong = []
    for module, path in FILES.items():
        for name, line in (*private_attributes(tree_of(path)), *private_overrides(tree_of(path))):
            if name not in PRIVATE_ATTRIBUTES.get(module, ()):
                wrong.append(f"{path.relative_to(ROOT)}:{line}: {module} uses {name}")
    assert not wrong, "\n".join(wrong)


def test_every_listed_private_attribute_is_still_used():
    for module, names in PRIVATE_ATTRIBUTES.items():
        tree = tree_of(FILES[module])
        used = {name for name, _ in (*private_attributes(tree), *private_overrides(tree))}
        assert names == used & names, f"{module} no longer uses {names - used}: strike it off"


def test_private_attributes_are_found():
    """What the search sees, and what it leaves alone: the module's own names, operators, `os._exit`."""
    tree = ast.parse("""
import os
import torch
from torch.fx import Interpreter
from torchao.quantization.pt2e import HistogramObserver

class Own(HistogramObserver, Base):
    def __init__(self, other):
        self._mine = other._mine

    def _non_linear_param_search(self):
        return os._exit(torch.ops.aten._softmax.default)

def read(node, module):
    return node.target._schema, getattr(module, "_buffers"), setattr(node, "_hidden", 1)
""")
    assert {name for name, _ in private_attributes(tree)} == {"_schema", "_buffers", "_hidden"}
    assert {name for name, _ in private_overrides(tree)} == {"_non_linear_param_search"}


def is_private(name):
    return name.startswith("_") and not name.startswith("__") and name != "_"


def private_attributes(tree):
    """(name, line) of private attributes, also by getattr, whose names the module does not define itself."""
    own = {"_exit", "_fields"}  # documented: `os._exit`, and what named tuples have
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            own.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            own.add(node.id)
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("self", "cls"):
            own.add(node.attr)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and "ops." not in ast.unparse(node):
            name = node.attr
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("getattr", "setattr", "hasattr", "delattr"):
            name = node.args[1].value if isinstance(node.args[1], ast.Constant) else ""
        else:
            continue
        if is_private(name) and name not in own:
            yield name, node.lineno


def private_overrides(tree):
    """(name, line) of private methods that replace those of a class of another project."""
    imported = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] in FOREIGN
        for alias in node.names
    }
    for made in ast.walk(tree):
        if isinstance(made, ast.ClassDef):
            inherited = {name for base in made.bases for name in members_of(imported.get(ast.unparse(base), ""))}
            for node in made.body:
                if isinstance(node, ast.FunctionDef) and is_private(node.name) and node.name in inherited:
                    yield node.name, node.lineno


@cache
def members_of(dotted):
    """Names that a class of another project defines or inherits, read from its source; none where it is not found."""
    module, _, name = dotted.rpartition(".")
    path = source_of(module)
    if path is None:
        return frozenset()
    for node in tree_of(path).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            own = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
            return frozenset(own.union(*(members_of(f"{module}.{ast.unparse(base)}") for base in node.bases)))
        if isinstance(node, ast.ImportFrom) and name in (alias.asname or alias.name for alias in node.names):
            package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
            home = ".".join(package[: len(package) + 1 - node.level]) + "." if node.level else ""
            original = next(alias.name for alias in node.names if name == (alias.asname or alias.name))
            return members_of(f"{home}{node.module or ''}.{original}".replace("..", "."))
    return frozenset()


def source_of(module):
    """The source of an installed module, which is not imported; None where there is none."""
    for folder in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib")):
        stem = Path(folder, *module.split("."))
        for path in (stem.with_suffix(".py"), stem / "__init__.py"):
            if module and path.is_file():
                return path
    return None


def private_names(path):
    """(dotted name, line) of private names of other projects, imported or reached as attributes."""
    names = list(imports_of(path))
    inner = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Attribute):
            inner.add(node.value)
            # a.b.c holds a.b as well; the walk meets the longer one first
            if node not in inner:
                names.append((ast.unparse(node), node.lineno))
    for name, line in names:
        if name.startswith(PRIVATE_PREFIXES) and "__" not in name and name not in ALLOWED:
            yield name, line


def test_temporary_files_are_made_where_leftovers_are_removed():
    wrong = []
    for module, path in FILES.items():
        if module != "edgex.runtime.support.disk.scratch" and layer_of(module) != "samples":
            for node in ast.walk(tree_of(path)):
                if isinstance(node, ast.Call) and ast.unparse(node.func) in TEMPORARIES:
                    wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node.func)}")
    assert not wrong, "\n".join(wrong)


def test_processes_are_started_in_one_place():
    """Python children in `process.child`, everything else in `process.programs`: what holds for all is said there."""
    wrong = []
    for module, path in FILES.items():
        if module in ("edgex.runtime.support.process.programs", "edgex.samples.demo"):
            continue
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in STARTERS:
                wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node.func)}")
    assert not wrong, "\n".join(wrong)
