"""Nodes are marked as they are made, and their patches found again: after a second trace, in another process."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest
from scripts import run_json

from yobx.autopatch import families, marks
from yobx.helpers.patch_helper import PatchDetails

LOAD = """
program = torch.export.load(sys.argv[1])
print(json.dumps([found(autopatch.details(), program), found(autopatch.details(), program.run_decompositions())]))
"""

TINY = """
from yobx.torch import use_dyn_not_str
from yobx.torch.tiny_models import TinyBroadcastAddModel as Tiny
shapes = use_dyn_not_str(Tiny._dynamic_shapes())
out = {}
for strict in (False, True):
    with apply_patches_for_model(patch_torch=True) as details:
        program = torch.export.export(Tiny(), (), kwargs=Tiny._export_inputs(), dynamic_shapes=shapes, strict=strict)
        inside = program.run_decompositions()
    programs = [program, inside, program.run_decompositions()]
    out[str(strict)] = [found(details, each) for each in programs]
torch.export.save(program, sys.argv[1])
print(json.dumps(out))
"""


def test_the_broadcasting_patch_and_its_add_are_found_traced_decomposed_saved_and_loaded(tmp_path):
    file = tmp_path / "tiny.pt2"
    out = run_json(TINY, file, cwd=tmp_path)
    for traced in out.values():
        for program in traced:
            assert program["broadcast_shapes"] == program["infer_size"] == ["add"]
    for loaded in run_json(LOAD, file, cwd=tmp_path):
        assert loaded == out["True"][0]


def test_nothing_is_added_to_a_graph_that_no_patch_touched_nor_when_marking_is_off(tmp_path):
    code = """
    from yobx.helpers import marks
    def custom(model, on, *args):
        before = marks.switch(on)
        with apply_patches_for_model(patch_torch=True):
            program = torch.export.export(model, args, dynamic_shapes=tuple({0: D} for _ in args))
        marks.switch(before)
        return [node.name for node in program.graph.nodes if "custom" in node.meta]
    class Add(torch.nn.Module):
        def forward(self, x, y):
            return x + y
    pair = torch.randn(3, 4), torch.randn(1, 4)
    print(json.dumps([custom(torch.nn.Linear(4, 3), True, torch.randn(2, 4)), custom(Add(), False, *pair),
                      custom(Add(), True, *pair)]))
    """
    assert run_json(code, cwd=tmp_path) == [[], [], ["add"]]


@pytest.mark.parametrize(("variable", "marked"), [("0", []), ("1", ["add"]), ("", ["add"])])
def test_marking_is_switched_off_by_a_variable(tmp_path, variable, marked):
    code = """
    class Add(torch.nn.Module):
        def forward(self, x, y):
            return x + y
    program = torch.export.export(Add(), (torch.randn(3, 4), torch.randn(1, 4)), dynamic_shapes=({0: D}, {0: D}))
    print(json.dumps([node.name for node in program.graph.nodes if "custom" in node.meta]))
    """
    variables = {"YOBX_PATCH_MARKS": variable} if variable else {}
    assert run_json(code, cwd=tmp_path, YOBX_PATCH="torch", **variables) == marked


SHARED = """
from yobx.helpers.patch_helper import PatchInfo
class A(torch.nn.Module):
    def forward(self, x):
        return x.sin()
class B(A):
    def forward(self, x):
        return x.cos()
class Other(torch.nn.Module):
    def forward(self, x):
        return x.tanh()
def shared(self, x):
    return x.exp() + 1
def outer(self, x):
    return helper(x).neg()
def helper(x):
    return inner_model(x.abs())
inner_model = A()
class Both(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.other = A(), B(), Other()
    def forward(self, x):
        return self.a(x), self.b(x), self.other(x), x * 3
owners = {"A": (A, shared), "B": (B, shared), "Other": (Other, outer)}
patches = [PatchInfo.make(function, owner, "forward", family="mine") for owner, function in owners.values()]
out = []
for strict in (False, True):
    with apply_patches_for_model(extra_patches=patches) as details:
        program = torch.export.export(Both(), (torch.randn(2, 3),), strict=strict)
        inside = program.run_decompositions()
    out.append([{info.target: [str(n.target) for n in nodes]
                 for info, nodes in details.patches_involved_in_graph(p.graph)} for p in (program, inside)])
print(json.dumps(out))
"""


def test_classes_that_share_a_replacement_and_replacements_that_call_others_are_told_apart(tmp_path):
    own = ["aten.exp.default", "aten.add.Tensor"]
    for traced in run_json(SHARED, cwd=tmp_path):
        for program in traced:
            assert program == {
                "__main__:A.forward": own * 2,
                "__main__:B.forward": own,
                "__main__:Other.forward": ["aten.abs.default", "aten.neg.default"],
            }


BRANCHES = """
from yobx.helpers.patch_helper import PatchInfo
class Inner(torch.nn.Module):
    def forward(self, x):
        return x.sin()
inner = Inner()
patch = PatchInfo.make(lambda self, x: x.exp() * 3, Inner, "forward", family="mine")
class Cond(torch.nn.Module):
    def forward(self, x, y):
        return torch.cond(x.sum() > 0, lambda x, y: inner(x) + y, lambda x, y: y.clone() - x, (x, y))
class Loop(torch.nn.Module):
    def forward(self, x, y):
        step = lambda i, x, y: (i + 1, inner(x) + y, y.clone())
        return torch._higher_order_ops.while_loop(lambda i, x, y: i < 3, step, (torch.tensor(0), x, y))
class NoGrad(torch.nn.Module):
    def forward(self, x, y):
        with torch.no_grad():
            z = inner(x) + y
        return z * 2
class Outer(torch.nn.Module):
    def forward(self, x, y):
        with torch.no_grad():
            z = x + 1
        return torch.cond(x.sum() > 0, lambda x, y: (x + y).sum(), lambda x, y: y.sum() * 2, (x, y)), z
out = {}
for model in (Cond, Loop, NoGrad, Outer):
    for strict in (False, True):
        with apply_patches_for_model(patch_torch=True, extra_patches=[patch]) as details:
            pair = torch.randn(3, 4), torch.randn(3, 4)
            program = torch.export.export(model(), pair, dynamic_shapes=({0: D}, {0: D}), strict=strict)
            inside = program.run_decompositions()
        out[f"{model.__name__} {strict}"] = [
            [str(node.target) for info, nodes in details.patches_involved_in_graph(each.graph)
             if info.family == "mine" for node in nodes] for each in (program, inside)]
print(json.dumps(out))
"""


def test_nodes_in_branches_keep_their_marks_and_the_operator_around_them_has_none(tmp_path):
    for model, (traced, inside) in run_json(BRANCHES, cwd=tmp_path).items():
        own = [] if model.startswith("Outer") else ["aten.exp.default", "aten.mul.Tensor"]
        assert traced == inside == own, model


def test_a_second_identical_computation_is_marked_with_the_fake_tensor_cache_on(tmp_path):
    code = """
    class Twice(torch.nn.Module):
        def forward(self, x, y):
            return (x + y).sum() + (x + y).mean()
    import torch._dynamo.config
    assert torch._dynamo.config.fake_tensor_cache_enabled
    with apply_patches_for_model(patch_torch=True) as details:
        program = torch.export.export(Twice(), (torch.randn(3, 4), torch.randn(1, 4)), dynamic_shapes=({0: D}, {0: D}))
    print(json.dumps(found(details, program)["infer_size"]))
    """
    assert run_json(code, cwd=tmp_path) == ["add", "add_1"]


def test_a_replacement_may_say_what_it_decided_and_where_it_does_as_the_original_does(tmp_path):
    code = """
    from yobx.helpers.marks import decided, passing
    from yobx.helpers.patch_helper import PatchInfo, patch
    from yobx.autopatch import families
    class A(torch.nn.Module):
        def forward(self, x):
            return x.sin()
    @patch("__main__:A.forward", family="mine", why="a test", around=True)
    def forward(original, self, x):
        y = x.exp() + original(self, x)
        passing()
        return y.neg()
    with autopatch.activate("mine") as details:
        program = torch.export.export(A(), (torch.randn(2, 3),))
    decided()  # outside of a replacement it means nothing
    print(json.dumps(found(details, program)))
    """
    assert run_json(code, cwd=tmp_path) == {"forward": ["exp", "add"]}


def test_lines_that_a_replacement_shares_with_its_original_are_not_its_own(tmp_path):
    (tmp_path / "shared_text.py").write_text(
        "import torch\n"
        "class A(torch.nn.Module):\n"
        "    def forward(self, x):\n        y = x.sin()\n        z = y + 1\n        return z.cos()\n"
        "def forward(self, x):\n    y = x.sin()\n    z = torch.add(\n        y, 2,\n    )\n    return z.cos()\n"
    )
    code = """
    import shared_text
    from yobx.helpers.patch_helper import PatchInfo
    patches = [PatchInfo.make(shared_text.forward, shared_text.A, "forward", family="mine")]
    out = []
    for strict in (False, True):
        with apply_patches_for_model(extra_patches=patches) as details:
            program = torch.export.export(shared_text.A(), (torch.randn(2, 3),), strict=strict)
        out.append(found(details, program))
    print(json.dumps(out))
    """
    assert run_json(code, cwd=tmp_path, PYTHONPATH=str(tmp_path)) == [{"forward": ["add"]}] * 2


def test_a_patch_of_a_program_that_is_not_here_is_named_all_the_same(tmp_path):
    save = """
    from yobx.helpers.patch_helper import PatchInfo
    class A(torch.nn.Module):
        def forward(self, x):
            return x.sin()
    patch = PatchInfo.make(lambda self, x: x.exp(), A, "forward", family="mine")
    with apply_patches_for_model(extra_patches=[patch]):
        torch.export.save(torch.export.export(A(), (torch.randn(2, 3),)), sys.argv[1])
    print("0")
    """
    run_json(save, tmp_path / "a.pt2", cwd=tmp_path)
    load = """
    program = torch.export.load(sys.argv[1])
    ((info, nodes),) = autopatch.details().patches_involved_in_graph(program.graph)
    print(json.dumps([info.family, info.target, info.refid, info.make_diff(), [n.name for n in nodes]]))
    """
    family, target, refid, diff, nodes = run_json(load, tmp_path / "a.pt2", cwd=tmp_path)
    assert (family, target, refid, nodes) == ("mine", "__main__:A.forward", "patch-mine-<lambda>", ["exp"])
    assert "no source to show" in diff


def node(index, custom=None, trace="", target="aten.add.Tensor"):
    meta = {"stack_trace": trace} | ({"custom": custom} if custom else {})
    return SimpleNamespace(name=f"n{index}", op="call_function", target=target, args=(), meta=meta)


def details_of(*names):
    return PatchDetails(patch.info for name in names for patch in families.get(name).load().values())


def test_a_graph_that_others_traced_is_searched_by_stack_traces():
    details = details_of("torch")
    info = details.find("infer_size")
    line = info.patch.__code__.co_firstlineno + 12
    trace = (
        f'  File "/model.py", line 3, in forward\n  File "{info.patch.__code__.co_filename}", line {line}, in x\n    y'
    )
    graph = SimpleNamespace(nodes=[node(0), node(1, trace=trace), node(2, trace='File "/model.py", line 3')])
    assert details.patches_involved_in_graph(graph) == [(info, [graph.nodes[1]])]
    marked = SimpleNamespace(nodes=[*graph.nodes, node(3, {marks.KEY: [["shaped", info.refid, info.target]]})])
    assert details.patches_involved_in_graph(marked) == [(info, [marked.nodes[3]])]


@pytest.mark.parametrize("marked", [True, False])
def test_a_graph_of_100_000_nodes_and_60_patches_is_read_in_half_a_second(marked):
    details = details_of("torch", "transformers")
    infos = (list(details) * 60)[:60]
    file = infos[0].patch.__code__.co_filename
    nodes = []
    for index in range(100_000):
        info = infos[index % 60]
        custom = {marks.KEY: [["shaped", info.refid, info.target]]} if marked and index % 3 == 0 else None
        trace = "\n".join(f'  File "{file}", line {index % 1000}, in f' for _ in range(3))
        nodes.append(node(index, custom, trace))
    graph = SimpleNamespace(nodes=nodes)
    details.patches_involved_in_graph(SimpleNamespace(nodes=nodes[:10]))
    times = []
    for _ in range(3):
        start = time.perf_counter()
        found = PatchDetails(infos).patches_involved_in_graph(graph)
        times.append(time.perf_counter() - start)
    assert found
    assert min(times) < 0.5, times
