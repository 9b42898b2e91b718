"""Whatever the inputs are, the outputs have eager's shapes, strides, dtypes and numbers."""

from __future__ import annotations

import pytest
import torch
from functions import Function
from torch.nn import functional

from yobx.torch import apply_patches_for_model

ANY = torch.export.Dim.DYNAMIC
PAIRS = [((3, 7), (3, 1)), ((3, 5), (3, 5)), ((1, 5), (4, 1)), ((0, 5), (0, 1)), ((2, 0), (2, 1)), ((1, 1), (1, 1))]
IMAGES = [(3, 4, 6, 5), (1, 4, 3, 3), (2, 4, 1, 7), (1, 4, 1, 1)]


def programs_of(model, sample, dims):
    shapes = (tuple(dict.fromkeys(axes, ANY) for axes in dims),)
    with apply_patches_for_model(patch_torch=True):
        program = torch.export.export(model, sample, dynamic_shapes=shapes)
        return program.module(), program.run_decompositions().module()


def same(got, expected, strides=True):
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    torch.testing.assert_close(got, expected, equal_nan=True, atol=1e-4, rtol=1e-2)
    assert got.requires_grad == expected.requires_grad
    # The stride of a dimension of size 1, or of an empty tensor, says nothing.
    if strides and expected.numel():
        told = [i for i, size in enumerate(expected.shape) if size > 1]
        assert [got.stride(i) for i in told] == [expected.stride(i) for i in told]


def values(shape, dtype):
    generator = torch.Generator().manual_seed(sum(shape))
    return (torch.randn(shape, generator=generator) * 3).to(dtype)


OPERATIONS = {
    "add": lambda x, y: x + y,
    "where": lambda x, y: torch.where(y > 0, x, y),
    "new zeros": lambda x, y: (x + y).new_zeros((x + y).shape),
    "joined": lambda x, y: torch.cat([x + y, x + y], 1).sum(0),
    "transposed": lambda x, y: (x + y).transpose(0, 1),
    "flattened": lambda x, y: (x.t() + y.t()).reshape(-1),
}


@pytest.mark.parametrize("sample", [((2, 5), (2, 1)), ((1, 1), (1, 1))], ids=str)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.bool], ids=str)
def test_broadcasts_of_every_dtype(dtype, sample):
    def all_of_them(x, y):
        return [operation(x, y) for operation in OPERATIONS.values()]

    model = Function(all_of_them)
    programs = programs_of(model, tuple(values(shape, dtype) for shape in sample), [(0, 1), (0, 1)])
    for shapes in (sample, *PAIRS):
        inputs = tuple(values(shape, dtype) for shape in shapes)
        for program in programs:
            for got, expected in zip(program(*inputs), model(*inputs), strict=True):
                same(got, expected)


@pytest.mark.parametrize(
    "mixed", [(torch.float16, torch.float32), (torch.int32, torch.float32), (torch.bool, torch.int64)]
)
def test_types_are_promoted_as_in_eager(mixed):
    model = Function(lambda x, y: x * y + 1)
    programs = programs_of(model, tuple(map(values, [(2, 5), (2, 1)], mixed)), [(0, 1), (0, 1)])
    for shapes in PAIRS:
        inputs = tuple(map(values, shapes, mixed))
        for program in programs:
            same(program(*inputs), model(*inputs))


@pytest.mark.parametrize("sample", [((2, 5), (2, 1)), ((1, 4), (3, 4))], ids=str)
def test_gradients_go_through(sample):
    model = Function(lambda x, y: (x + y).softmax(-1) * x)
    program, _ = programs_of(model, tuple(torch.randn(shape, requires_grad=True) for shape in sample), [(0, 1), (0, 1)])
    for shapes in PAIRS:
        gradients = []
        for function in (model, program):
            inputs = [values(shape, torch.float32).requires_grad_() for shape in shapes]
            result = function(*inputs)
            result.square().sum().backward()
            gradients.append([result.detach(), *(x.grad for x in inputs)])
        for got, expected in zip(*reversed(gradients), strict=True):
            same(got, expected)


IMAGE_OPERATIONS = {
    "plus 1": lambda x: x + 1,
    "sum with a channel's bias": lambda x: x + torch.ones(4, 1, 1),
    "relu of a half": lambda x: functional.relu(x.half()),
    "convolution": lambda x: functional.conv2d(x, torch.ones(3, 4, 3, 3), padding=1),
    "pooling": lambda x: functional.max_pool2d(functional.pad(x, (1, 1, 1, 1)), 2),
    "mean": lambda x: x.mean((2, 3), keepdim=True),
    "tokens": lambda x: x.flatten(2).transpose(1, 2),
    "batch norm": lambda x: functional.batch_norm(x, torch.zeros(4), torch.ones(4)),
    "upsampled": lambda x: functional.interpolate(x, scale_factor=2.0),
    "joined": lambda x: torch.cat([x, x], 1),
    "contiguous": lambda x: x.contiguous(),
    "channels last": lambda x: x.to(memory_format=torch.channels_last),
    "permuted": lambda x: x.permute(0, 2, 3, 1).reshape(x.shape[0], -1, 4),
}


@pytest.mark.parametrize("memory_format", [torch.channels_last, torch.contiguous_format], ids=str)
@pytest.mark.parametrize("sample", [(2, 4, 5, 6), (1, 4, 5, 5)], ids=str)
def test_images_of_both_layouts(sample, memory_format):
    model = Function(lambda x: [operation(x) for operation in IMAGE_OPERATIONS.values()]).eval()
    x = values(sample, torch.float32).to(memory_format=memory_format)
    program, decomposed = programs_of(model, (x,), [(0, 2, 3)])
    for shape in (sample, *IMAGES):
        x = values(shape, torch.float32).to(memory_format=memory_format)
        results = zip(IMAGE_OPERATIONS, program(x), decomposed(x), model(x), strict=True)
        for name, got, of_decomposed, expected in results:
            same(got, expected)
            # A decomposition may lay out its result in its own way, without the patches as well.
            same(of_decomposed, expected, strides=name in ("plus 1", "relu of a half", "convolution", "contiguous"))


@pytest.mark.parametrize(
    ("function", "sample", "empty"),
    [
        (lambda x, y: x + y, ((3, 5), (3, 1)), ((0, 5), (0, 1))),
        (lambda x, y: x + y, ((5,), (1,)), ((0,), (1,))),
        (lambda x, y: (x + y).new_zeros((x + y).shape), ((2, 3), (2, 1)), ((2, 0), (2, 1))),
        (lambda x, y: torch.cat([x + y, x + y]).reshape(-1), ((2, 3), (2, 3)), ((2, 0), (2, 1))),
        (lambda x, y: (x + y).sum(0), ((2, 3), (2, 3)), ((0, 4), (1, 4))),
        (lambda x, y: (x @ y) + torch.ones(x.shape[0], 1), ((2, 3), (3, 4)), ((0, 3), (3, 4))),
        (lambda x, y: torch.where(x > 0, x, y), ((1, 3), (2, 3)), ((0, 3), (1, 3))),
        (lambda x, y: x.expand((x + y).shape), ((1, 3), (2, 3)), ((1, 3), (0, 3))),
    ],
)
@pytest.mark.parametrize("strict", [False, True], ids=["non-strict", "strict"])
def test_empty_inputs(function, sample, empty, strict):
    model = Function(function)
    shapes = (tuple(dict.fromkeys(range(len(shape)), ANY) for shape in sample),)
    torch._dynamo.reset()
    with apply_patches_for_model(patch_torch=True):
        exported = torch.export.export(model, tuple(map(torch.randn, sample)), dynamic_shapes=shapes, strict=strict)
        programs = [exported.module(), exported.run_decompositions().module()]
    inputs = tuple(map(torch.randn, empty))
    for program in programs:
        same(program(*inputs), model(*inputs))
