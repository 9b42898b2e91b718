"""What is told of the patches in a graph: as text, reStructuredText, JSON and a picture."""

from __future__ import annotations

import json
import re
import shutil
import xml.etree.ElementTree as xml
from types import SimpleNamespace

import pytest

from yobx.attribution import data, draw
from yobx.autopatch import families, marks
from yobx.helpers.patch_helper import PatchDetails

INFO = families.get("torch").load()["infer_size"].info
DETAILS = PatchDetails([INFO])


def graph_of(count, *touched):
    """A chain of nodes, some of which the patch shaped."""
    nodes = []
    for index in range(count):
        meta = {"val": SimpleNamespace(dtype="torch.float32", shape=("s0", 8))}
        if index in touched:
            meta["custom"] = {marks.KEY: [[marks.SHAPED, INFO.refid, INFO.target]]}
        inputs = nodes[-1:]
        nodes.append(
            SimpleNamespace(
                name=f"n{index}",
                op="call_function" if index else "placeholder",
                target="aten.add.Tensor",
                args=tuple(inputs),
                all_input_nodes=inputs,
                meta=meta,
            )
        )
    graph = SimpleNamespace(nodes=nodes)
    for node in nodes:
        node.graph = graph
    return graph


@pytest.fixture(scope="module", autouse=True)
def loaded():
    pytest.importorskip("torch._subclasses.fake_impls")


def report(format):
    graph = graph_of(5, 2, 3)
    return DETAILS.make_report(DETAILS.patches_involved_in_graph(graph), format=format)


FACTS = [INFO.target, INFO.why, INFO.see, INFO.obsolete, INFO.versions, "n2", "n3", "float32[s0, 8]", "shaped", "ran"]


@pytest.mark.parametrize("format", ["raw", "rst", "json", "html"])
def test_every_format_tells_the_facts(format):
    text = report(format)
    for fact in FACTS:
        assert json.dumps(fact)[1:-1] in text or fact in text, fact
    assert "def infer_size(" in text
    assert "n1" in text if format in ("json", "html") else "n1 " not in text


def test_unknown_format_names_the_known_ones():
    with pytest.raises(ValueError, match=r"'pdf'.*'raw', 'rst', 'html', 'json'"):
        DETAILS.make_report([], format="pdf")


def test_no_patch_is_a_report_too():
    assert DETAILS.make_report([]) == "No patch is involved.\n"
    assert json.loads(DETAILS.make_report([], format="json"))["programs"] == [
        {"title": "graph", "involved": [], "graphs": []}
    ]


def conforms(value, kind):
    """Whether a value is of a TypedDict that is declared by annotations in text."""
    fields = kind.__annotations__
    assert set(value) == set(fields), kind
    for name, declared in fields.items():
        text = getattr(declared, "__forward_arg__", declared)
        of_list = re.fullmatch(r"list\[(\w+)\]", text)
        inner = getattr(data, of_list[1], None) if of_list else None
        if inner is not None:
            for item in value[name]:
                conforms(item, inner)
        elif of_list:
            assert all(isinstance(item, str) for item in value[name])
        else:
            assert isinstance(
                value[name], {"str": str, "int": int, "int | None": (int, type(None)), "dict[str, str]": dict}[text]
            ), name


def test_json_is_of_the_documented_schema():
    told = json.loads(report("json"))
    conforms(told, data.Report)
    assert told["schema"] == "yobx.report/1"
    (program,) = told["programs"]
    assert [node["patches"] for node in program["graphs"][0]["nodes"]] == [[], [], [told["patches"][0]["id"]]] + [
        [told["patches"][0]["id"]],
        [],
    ]


def test_rst_is_read_without_a_complaint():
    core = pytest.importorskip("docutils.core")
    text = report("rst")
    said = core.publish_doctree(text, settings_overrides={"report_level": 2, "halt_level": 2}).astext()
    assert "infer_size" in said
    assert f".. _{INFO.refid}:" in text


def test_picture_of_300_nodes_folds_what_was_not_touched():
    graph = graph_of(300, 100, 200)
    dot = draw.dot_of(DETAILS.patches_involved_in_graph(graph), graph)
    drawn = re.findall(r'^"0\.\d+" \[', dot, re.M)
    assert len(drawn) < 15
    assert dot.count("untouched nodes") == 3
    assert dot.count(f'fillcolor="{draw.COLOURS[0]}"') == 3  # two nodes and the legend
    for shown in ("n99", "n100", "n101", "n199", "n200", "n201"):
        assert f'"{shown}\\n' in dot
    assert "n50\\n" not in dot
    assert "torch:infer_size: 2" in dot


def test_folding_makes_no_circle():
    graph = graph_of(30, 10)
    graph.nodes[20].all_input_nodes = [graph.nodes[2], graph.nodes[19]]
    program = data.program(DETAILS.patches_involved_in_graph(graph), graph)
    groups = draw.fold(program["graphs"][0]["nodes"])
    place = {node["name"]: index for index, group in enumerate(groups) for node in group}
    for group in groups:
        for node in group:
            assert all(place[other] <= place[node["name"]] for other in node["inputs"])


@pytest.mark.skipif(shutil.which("dot") is None, reason="graphviz is not installed")
def test_svg_is_written(tmp_path):
    file = DETAILS.draw(graph_of(300, 100), str(tmp_path / "patched.svg"))
    text = " ".join("".join(xml.parse(file).getroot().itertext()).split())
    assert "n100" in text and "untouched nodes" in text and "torch:infer_size: 1" in text


def test_without_graphviz_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(draw.GraphvizMissing, match="apt install graphviz"):
        DETAILS.draw(graph_of(3, 1), str(tmp_path / "patched.svg"))
    assert DETAILS.draw(graph_of(3, 1), str(tmp_path / "patched.dot")).read_text().startswith("digraph")
    with pytest.raises(ValueError, match=r"\.svg"):
        DETAILS.draw(graph_of(3, 1), str(tmp_path / "patched"))
