"""Small modules by kind: the program equals eager on every combination of sizes, and raises where eager raises."""

from __future__ import annotations

import math

import pytest
import torch
from functions import Function
from torch.nn import functional

from yobx.torch import apply_patches_for_model

ANY = torch.export.Dim.DYNAMIC

PAIRS = [
    ((3, 7), (3, 1)),
    ((3, 5), (3, 5)),
    ((3, 1), (3, 7)),
    ((1, 5), (4, 5)),
    ((4, 1), (1, 6)),
    ((2, 0), (2, 1)),
    ((0, 5), (0, 1)),
    ((1, 1), (1, 1)),
    ((3, 5), (3, 4)),
    ((4, 5), (2, 5)),
]
PAIR_SAMPLES = [((2, 5), (2, 1)), ((2, 5), (2, 5)), ((1, 5), (4, 5)), ((1, 1), (1, 1))]
ROWS = [((2, 5, 8),), ((1, 4, 8),), ((3, 1, 8),), ((1, 1, 8),), ((0, 3, 8),)]
ROW_SAMPLES = [((1, 5, 8),), ((2, 1, 8),), ((2, 5, 8),)]


def put_rows(x, y):
    z = x.clone()
    z[:] = y
    return z


def written_in_part(x, y):
    z = x.clone()
    z[:, : y.shape[1]].add_(1)
    z[:, y.shape[1] // 2 :].mul_(2)
    return z


def causal_heads(x):
    weights = torch.linspace(-1, 1, 192).view(24, 8)
    mask = torch.nn.Transformer.generate_square_subsequent_mask(x.shape[1])
    return functional.multi_head_attention_forward(
        *[x.transpose(0, 1)] * 3, 8, 2, weights, None, None, None, False, 0.0, weights[:8], None, False,
        attn_mask=mask, need_weights=False, is_causal=x.shape[1] > 1,
    )[0]  # fmt: skip


BROADCASTS = {
    "add": lambda x, y: x + y,
    "comparison": lambda x, y: x < y,
    "where": lambda x, y: torch.where(x > 0, x, y),
    "in place": lambda x, y: x.clone().add_(y),
    "assigned rows": put_rows,
    "lerp": lambda x, y: torch.lerp(x, y, 0.3),
    "chained": lambda x, y: (x + y) * x - y,
    "a new tensor of the result's size": lambda x, y: (x + y).new_zeros((x + y).shape) + 1,
    "summed": lambda x, y: (x + y).sum(0),
    "flattened": lambda x, y: (x + y).reshape(-1),
    "joined": lambda x, y: torch.cat([x + y, x * y], 0),
    "expanded": lambda x, y: x.expand((x + y).shape) + 1,
    "scaled by a size": lambda x, y: (x + y) * (x + y).shape[1],
    "only its shape": lambda x, y: torch.zeros(torch.broadcast_shapes(x.shape, y.shape)) + x,
}
LAYOUTS = {
    "contiguous": lambda x: x.transpose(0, 1).contiguous(),
    "heads": lambda x: x.view(x.shape[0], -1, 2, 4).transpose(1, 2).reshape(x.shape[0], x.shape[1], 8),
    "flattened rows": lambda x: x.transpose(1, 2).reshape(x.shape[0], -1),
    "attention": lambda x: (x @ x.transpose(1, 2) / 8**0.5).softmax(-1) @ x,
    "sdpa": lambda x: functional.scaled_dot_product_attention(x[:, None], x[:, None], x[:, None]),
    "sdpa with a flag": lambda x: functional.scaled_dot_product_attention(
        x[:, None], x[:, None], x[:, None], is_causal=x.shape[1] > 1
    ),
    "sdpa scaled by a length": lambda x: functional.scaled_dot_product_attention(
        x[:, None], x[:, None], x[:, None], scale=1 / math.sqrt(x.shape[1])
    ),
    "heads with a flag": lambda x: causal_heads(x),
    "product of three": lambda x: torch.linalg.multi_dot([x.flatten(1).t(), x.flatten(1), x.flatten(1).t()]),
    "layer norm": lambda x: functional.layer_norm(x.transpose(0, 1), (8,)),
    "mean and add": lambda x: x.mean(1, keepdim=True) + x,
    "expand and join": lambda x: torch.cat([x[:, :1].expand(-1, x.shape[1], -1), x], 1),
    "causal mask": lambda x: torch.ones(x.shape[1], x.shape[1]).tril().expand(x.shape[0], -1, -1),
    "mask of past and new": lambda x: torch.tril(torch.ones(x.shape), diagonal=x.shape[1] - x.shape[0]),
    "linspace": lambda x: x.sum(-1) * torch.linspace(0, 1, x.shape[1]),
    "arange": lambda x: x + torch.arange(x.shape[1], dtype=x.dtype)[:, None],
    "last row": lambda x: x[:, -1],
    "normalised": lambda x: functional.normalize(x, dim=1),
    "scaled by the root of a length": lambda x: (x @ x.transpose(1, 2) / math.sqrt(x.shape[1])).softmax(-1) @ x,
    "scaled by the logarithm of a length": lambda x: x * math.log(x.shape[1] + 1),
    "under a window": lambda x: x * torch.hann_window(x.shape[1])[:, None],
    "pooled over its length": lambda x: functional.max_pool1d(x.transpose(1, 2), x.shape[1]).squeeze(-1),
    "as long as another": lambda x: functional.interpolate(x, size=x.shape[1], mode="area"),
    "one of as many classes": lambda x: functional.one_hot((x > 0).long().cumsum(1) * 0, x.shape[1]),
}
TABLE = torch.linspace(-1, 1, 24).view(6, 4)
# Of x (batch, length, 4) by y (batch, width): what another size, or a number, leaves of a dimension.
PARTS = {
    "first": lambda x, y: x[:, : y.shape[1]],
    "rest": lambda x, y: x[:, y.shape[1] :],
    "last": lambda x, y: x[:, -y.shape[1] :],
    "middle": lambda x, y: x[:, y.shape[1] : y.shape[1] + 2],
    "between numbers": lambda x, y: x[:, 1:3] * y.shape[1],
    "cropped and joined": lambda x, y: torch.cat([x[:, : y.shape[1]], y[..., None].expand(-1, -1, 4)], 2),
    "cropped and added": lambda x, y: x[:, : y.shape[1]] + y[..., None],
    "cropped and multiplied": lambda x, y: y @ x[:, : y.shape[1]].sum(2).t(),
    "cropped scores": lambda x, y: (x @ x.mT)[:, : y.shape[1], : y.shape[1]] + y.t() @ y,
    "rows of a table": lambda x, y: x + TABLE[: x.shape[1]] + y.sum(),
    "rows of a table from another on": lambda x, y: TABLE[y.shape[1] : y.shape[1] + x.shape[1]] * 2,
    "view of the first": lambda x, y: x[:, : y.shape[1]].view(x.shape[0], 1, y.shape[1], 4),
    "view of the last": lambda x, y: x[:, -y.shape[1] :].view(x.shape[0], 1, y.shape[1], 4),
    "view of a half": lambda x, y: x[:, x.shape[1] // 2 :].view(x.shape[0], -1, 2, 2) * y.shape[1],
    "written in place": written_in_part,
    "written": lambda x, y: torch.slice_scatter(x, y[..., None].expand(-1, -1, 4), 1, 0, y.shape[1]),
}
SPECTRA = {
    "of another length": lambda x, y: torch.fft.rfft(x, n=y.shape[1] + 1, dim=1).abs(),
    "of a number": lambda x, y: torch.fft.fft(x, n=8, dim=1).abs() * y.shape[1],
    "of two lengths": lambda x, y: torch.fft.fft2(x, s=(y.shape[1] + 1, 3)).abs(),
    "back": lambda x, y: torch.fft.irfft(torch.fft.rfft(x, dim=1), n=y.shape[1] + 1, dim=1),
    "product": lambda x, y: torch.fft.irfft(
        torch.fft.rfft(x[..., 0], n=x.shape[1] + y.shape[1]) * torch.fft.rfft(y, n=x.shape[1] + y.shape[1])
    )[:, : x.shape[1]],
}


def tensors(shapes):
    generator = torch.Generator().manual_seed(sum(sum(shape) for shape in shapes))
    return tuple(torch.randn(shape, generator=generator) for shape in shapes)


def outcome(function, inputs):
    try:
        return function(*inputs)
    except Exception:
        return None


def check(function, sample, others, axes):
    model = Function(function).eval()
    shapes = (tuple(dict.fromkeys(dims, ANY) for dims in axes),)
    with apply_patches_for_model(patch_torch=True):
        exported = torch.export.export(model, tensors(sample), dynamic_shapes=shapes)
        programs = [exported.module(), exported.run_decompositions().module()]
    for sizes in (sample, *others):
        expected = outcome(model, tensors(sizes))
        for program in programs:
            got = outcome(program, tensors(sizes))
            assert (got is None) == (expected is None), f"{sizes}: {'rejected' if got is None else 'accepted'}"
            if expected is not None:
                torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-4)


# In place, the first of two is not broadcast: eager rejects such a sample.
TAKEN = [
    pytest.param(function, sample, id=f"{name}-{sample}")
    for name, function in BROADCASTS.items()
    for sample in PAIR_SAMPLES
    if outcome(function, tensors(sample)) is not None
]


def test_nearly_all_samples_are_taken_by_eager():
    assert len(TAKEN) == len(BROADCASTS) * len(PAIR_SAMPLES) - 2


@pytest.mark.parametrize(("function", "sample"), TAKEN)
def test_broadcast(function, sample):
    check(function, sample, PAIRS, [(0, 1), (0, 1)])


@pytest.mark.parametrize("sample", ROW_SAMPLES, ids=str)
@pytest.mark.parametrize("function", LAYOUTS.values(), ids=LAYOUTS)
def test_layout_and_sizes_of_one(function, sample):
    check(function, sample, ROWS, [(0, 1)])


@pytest.mark.parametrize("sample", [((2, 5, 4), (2, 3)), ((1, 5, 4), (1, 1)), ((2, 3, 4), (2, 3))], ids=str)
@pytest.mark.parametrize("function", PARTS.values(), ids=PARTS)
def test_parts_by_another_size(function, sample):
    others = [((3, 4, 4), (3, 4)), ((1, 6, 4), (1, 2)), ((3, 2, 4), (3, 5)), ((1, 1, 4), (1, 1)), ((2, 7, 4), (2, 1))]
    check(function, sample, others, [(0, 1), (0, 1)])


@pytest.mark.parametrize("sample", [((2, 5, 4), (2, 3)), ((1, 5, 4), (1, 1)), ((2, 4, 4), (2, 3))], ids=str)
@pytest.mark.parametrize("function", SPECTRA.values(), ids=SPECTRA)
def test_spectra_of_another_length(function, sample):
    others = [((3, 4, 4), (3, 3)), ((1, 9, 4), (1, 2)), ((3, 2, 4), (3, 7)), ((1, 2, 4), (1, 1))]
    check(function, sample, others, [(0, 1), (0, 1)])


@pytest.mark.parametrize("sample", [((1, 3, 4), (2, 4, 5)), ((2, 3, 4), (2, 4, 5)), ((1, 1, 4), (1, 4, 1))], ids=str)
def test_matmul_of_unequal_batches(sample):
    others = [((2, 3, 4), (2, 4, 7)), ((3, 6, 4), (1, 4, 7)), ((1, 6, 4), (3, 4, 7)), ((3, 6, 4), (2, 4, 7))]
    check(torch.matmul, sample, others, [(0, 1), (0, 2)])


@pytest.mark.parametrize(
    "sample", [((2, 3, 5, 4), (3, 4, 6)), ((2, 1, 5, 4), (3, 4, 6)), ((1, 3, 1, 4), (1, 4, 1))], ids=str
)
def test_einsum_with_an_ellipsis(sample):
    others = [
        ((2, 3, 5, 4), (1, 4, 7)),
        ((4, 1, 2, 4), (3, 4, 1)),
        ((1, 1, 1, 4), (1, 4, 1)),
        ((2, 3, 5, 4), (2, 4, 6)),
    ]
    check(lambda x, y: torch.einsum("...ij,...jk->...ik", x, y), sample, others, [(0, 1, 2), (0, 2)])


@pytest.mark.parametrize("sample", [((2, 3, 16, 24),), ((2, 3, 4, 24),), ((1, 3, 16, 9),), ((1, 3, 4, 4),)], ids=str)
def test_image_that_shrinks_to_one_pixel(sample):
    def tokens(x):
        reduced = functional.conv2d(x, torch.ones(4, 3, 3, 3), stride=4, padding=1)
        return functional.conv2d(reduced, torch.ones(4, 1, 3, 3), padding=1, groups=4).flatten(2).transpose(1, 2)

    check(tokens, sample, [((n, 3, h, w),) for n, h, w in ((1, 4, 4), (2, 1, 8), (3, 8, 2), (1, 33, 5))], [(0, 2, 3)])


@pytest.mark.parametrize("pool", ["avg_pool2d", "max_pool2d"])
@pytest.mark.parametrize("sample", [((2, 3, 5, 6),), ((1, 3, 1, 1),), ((3, 3, 4, 4),)], ids=str)
def test_last_window_of_an_odd_image_begins_in_the_padding(pool, sample):
    def pooled(x):
        reduced = getattr(functional, pool)(x, 2, stride=2, padding=1, ceil_mode=True)
        return reduced.flatten(2) - reduced.mean((2, 3))[..., None]

    check(pooled, sample, [((n, 3, h, w),) for n, h, w in ((1, 2, 2), (2, 1, 7), (3, 8, 3))], [(0, 2, 3)])


@pytest.mark.parametrize("sample", [((2, 8, 4),), ((3, 2, 4),)], ids=str)
def test_image_of_tokens(sample):
    def mixed(x):
        image = x.transpose(1, 2).view(x.shape[0], 4, 2, x.shape[1] // 2)
        return functional.conv2d(image, torch.ones(4, 1, 3, 3), padding=1, groups=4).flatten(2).transpose(1, 2)

    check(mixed, sample, [((n, m, 4),) for n, m in ((1, 2), (3, 12), (2, 4), (2, 5))], [(0, 1)])


@pytest.mark.parametrize("sample", [((2, 30, 3), (2, 5, 3)), ((1, 5, 3), (1, 4, 3)), ((3, 3, 3), (3, 3, 3))], ids=str)
def test_values_at_the_nearest_points(sample):
    def interpolated(x, y):
        distance, index = torch.cdist(x, y).topk(3, largest=False)
        values = y[:, None].expand(-1, x.shape[1], -1, -1).gather(2, index[..., None].expand(-1, -1, -1, 3))
        return (values * distance.neg().softmax(-1)[..., None]).sum(2)

    sizes = ((3, 4, 3), (1, 1, 40), (2, 40, 3), (1, 30, 30), (2, 0, 4), (2, 5, 2))
    others = [((n, i, 3), (n, j, 3)) for n, i, j in sizes]
    check(interpolated, sample, others, [(0, 1), (0, 1)])


@pytest.mark.parametrize("sample", [((1, 6, 3),), ((2, 1, 3),), ((2, 4, 3),)], ids=str)
def test_states_carried_over_chunks_of_a_padded_sequence(sample):
    def carried(x):
        b, n, d = x.shape
        chunks = functional.pad(x, (0, 0, 0, -n % 4)).view(b, -1, 4, d)
        states = (chunks.mT @ chunks).cumsum(1)
        states = torch.cat([torch.zeros_like(states[:, :1]), states[:, :-1]], 1)
        return (chunks @ states).view(b, -1, d)[:, :n]

    check(carried, sample, [((n, m, 3),) for n, m in ((1, 1), (3, 9), (2, 8), (1, 5))], [(0, 1)])


def test_product_of_matrices_in_batches_is_refused():
    class Product(torch.nn.Module):
        def forward(self, x, y):
            return torch.linalg.multi_dot([x, y, x])

    x, y = torch.randn(2, 3, 4), torch.randn(4, 4)
    with pytest.raises(RuntimeError, match="must be 2D"):
        Product()(y, x)
    with apply_patches_for_model(patch_torch=True), pytest.raises(RuntimeError, match="must be 2D"):
        torch.export.export(Product(), (y, x), dynamic_shapes=({}, {0: torch.export.Dim.DYNAMIC}))
