"""A declared range is honoured exactly, saved and decomposed too: what it holds is taken, and nothing else."""

from __future__ import annotations

import io

import pytest
import torch

from yobx.torch import apply_patches_for_model, verify

Dim = torch.export.Dim
SIZES = range(7)
RANGES = {
    "1 and more": (Dim("b", min=1), 1, None),
    "2 and more": (Dim("b", min=2), 2, None),
    "3 and more": (Dim("b", min=3), 3, None),
    "up to 4": (Dim("b", max=4), 0, 4),
    "1 to 3": (Dim("b", min=1, max=3), 1, 3),
    "any": (Dim("b"), 0, None),
    "dynamic, 1 and more": (Dim.DYNAMIC(min=1), 1, None),
    "dynamic, 2 to 5": (Dim.DYNAMIC(min=2, max=5), 2, 5),
}


def saved_and_loaded(program):
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    return torch.export.load(file)


def taken(program, *widths):
    """The numbers of rows that the program takes."""
    result = []
    for rows in SIZES:
        try:
            program.module()(*(torch.randn(rows, width) for width in widths))
        except (AssertionError, RuntimeError):
            continue
        result.append(rows)
    return result


@pytest.mark.parametrize(("sample", "strict"), [(1, False), (3, False), (3, True)])
@pytest.mark.parametrize(("dim", "least", "most"), RANGES.values(), ids=RANGES)
def test_what_a_range_holds_is_taken_and_nothing_else(dim, least, most, sample, strict):
    if sample < least:
        pytest.skip("the sample is out of range")
    # Up to torch 2.9, exports of one module count towards Dynamo's limit of recompilations.
    torch._dynamo.reset()
    x = torch.randn(sample, 4)
    model = torch.nn.Linear(4, 3)
    with apply_patches_for_model(patch_torch=True):
        program = torch.export.export(model, (x,), dynamic_shapes=({0: dim},), strict=strict)
        loaded = saved_and_loaded(program)
        programs = [program, program.run_decompositions(), loaded, saved_and_loaded(loaded.run_decompositions())]
    expected = [rows for rows in SIZES if least <= rows <= (most or rows)]
    for program in programs:
        assert taken(program, 4) == expected
        assert verify(program, model, (x,), dynamic_shapes=({0: dim},)).ok


def test_a_dimension_that_broadcasts_keeps_its_own_range():
    class Add(torch.nn.Module):
        def forward(self, pair):
            return pair["x"] + pair["y"]

    shapes = {"pair": {"x": {0: Dim("rows", min=2)}, "y": {0: Dim("others", min=1)}}}
    with apply_patches_for_model(patch_torch=True):
        program = torch.export.export(Add(), ({"x": torch.randn(3, 4), "y": torch.randn(3, 4)},), dynamic_shapes=shapes)
        programs = [program, program.run_decompositions()]
    for program in programs:
        module = program.module()
        for rows, others in [(2, 2), (5, 1), (2, 1)]:
            module({"x": torch.randn(rows, 4), "y": torch.randn(others, 4)})
        for rows, others in [(1, 1), (1, 3), (0, 1), (2, 0), (3, 2)]:
            with pytest.raises((AssertionError, RuntimeError)):
                module({"x": torch.randn(rows, 4), "y": torch.randn(others, 4)})


def test_a_dimension_made_of_another_keeps_its_range():
    half = Dim("half", min=1, max=5)

    class Join(torch.nn.Module):
        def forward(self, x, y):
            return torch.cat([x, x]) + y

    with apply_patches_for_model(patch_torch=True):
        program = torch.export.export(
            Join(), (torch.randn(3, 4), torch.randn(6, 4)), dynamic_shapes=({0: half}, {0: 2 * half})
        )
    module = program.module()
    for n in (1, 2, 5):
        module(torch.randn(n, 4), torch.randn(2 * n, 4))
    for n, m in [(0, 0), (2, 1), (2, 3), (6, 12)]:
        with pytest.raises((AssertionError, RuntimeError)):
            module(torch.randn(n, 4), torch.randn(m, 4))


def test_what_is_not_declared_is_static():
    class Add(torch.nn.Module):
        def forward(self, x, y):
            return x + y

    dynamic = {1: Dim.DYNAMIC}
    with apply_patches_for_model(patch_torch=True):
        program = torch.export.export(
            Add(), (torch.randn(2, 5), torch.randn(1, 5)), dynamic_shapes=(dynamic, dynamic)
        ).module()
    program(torch.randn(2, 7), torch.randn(1, 1))
    for x, y in [((3, 5), (1, 5)), ((2, 5), (2, 5)), ((1, 5), (1, 5))]:
        with pytest.raises((AssertionError, RuntimeError)):
            program(torch.randn(x), torch.randn(y))


def test_a_size_from_data_is_not_bounded_by_what_is_assumed_of_others():
    class Counts(torch.nn.Module):
        def forward(self, x, y):
            return torch.bincount(x, minlength=y.shape[0])

    with apply_patches_for_model(patch_torch=True):
        program = torch.export.export(
            Counts(),
            (torch.zeros(5, dtype=torch.int64), torch.randn(3)),
            dynamic_shapes=({0: Dim.DYNAMIC}, {0: Dim.DYNAMIC}),
        ).module()
    for rows, classes in [(4, 1), (1, 1), (3, 0), (2, 7)]:
        x, y = torch.zeros(rows, dtype=torch.int64), torch.randn(classes)
        assert torch.equal(program(x, y), Counts()(x, y))


@pytest.mark.parametrize("declared", [Dim("tokens", min=4), Dim.DYNAMIC(min=4)], ids=["named", "hint"])
def test_a_least_size_that_is_declared_holds_for_a_product_of_sizes(declared):
    class Image(torch.nn.Module):
        def forward(self, tokens, image):
            return tokens.view(image.shape) * image

    with apply_patches_for_model(patch_torch=True):
        program = torch.export.export(
            Image(),
            (torch.randn(12), torch.randn(3, 4)),
            dynamic_shapes=({0: declared}, {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}),
        ).module()
    for rows, columns in [(1, 4), (2, 2), (5, 1)]:
        program(torch.randn(rows * columns), torch.randn(rows, columns))
    for rows, columns in [(1, 1), (1, 3), (2, 1)]:
        with pytest.raises((AssertionError, RuntimeError)):
            program(torch.randn(rows * columns), torch.randn(rows, columns))
