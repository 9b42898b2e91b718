"""Attention whose algorithm torch chooses by sizes that a program learns when it runs."""

from __future__ import annotations

import pytest
import torch
from functions import Function
from torch.nn import functional

from yobx.torch import apply_patches_for_model

ANY = torch.export.Dim.DYNAMIC
attention = functional.scaled_dot_product_attention


def among_selected(x, selected, other, **options):
    """Selected tokens with one another, two heads of width 4."""
    q = x[torch.nonzero(selected)[:, 0]].unflatten(1, (2, 4)).transpose(0, 1)[None]
    return attention(q, q, q, **options).transpose(1, 2).flatten(2)


def under_a_mask(x, selected, other):
    places = torch.nonzero(selected)[:, 0]
    return among_selected(x, selected, other, attn_mask=places[:, None] >= places)


def of_other_tokens_to_selected(x, selected, other):
    q = x[torch.nonzero(selected)[:, 0]].unflatten(1, (2, 4)).transpose(0, 1)[None]
    k = other.unflatten(1, (2, 4)).transpose(0, 1)[None]
    return attention(k, q, q), attention(q, k[:, :1], k[:, :1], enable_gqa=True)


WAYS = {
    "all": among_selected,
    "causal": lambda x, selected, other: among_selected(x, selected, other, is_causal=True),
    "masked": under_a_mask,
    "across": of_other_tokens_to_selected,
}


def programs(function, inputs, shapes):
    with apply_patches_for_model(patch_torch=True):
        exported = torch.export.export(Function(function), inputs, dynamic_shapes=(shapes,))
        return exported.module(), exported.run_decompositions().module()


@pytest.mark.parametrize("function", WAYS.values(), ids=WAYS)
def test_tokens_selected_by_data(function):
    def inputs(tokens, selected, others):
        return torch.randn(tokens, 8), (torch.arange(tokens) < selected).long(), torch.randn(others, 8)

    for program in programs(function, inputs(6, 4, 3), ({0: ANY}, {0: ANY}, {0: ANY})):
        for sizes in ((6, 4, 3), (7, 1, 1), (5, 5, 9), (5, 0, 2)):
            tensors = inputs(*sizes)
            torch.testing.assert_close(program(*tensors), function(*tensors), equal_nan=True)


def test_values_of_another_width_than_queries():
    def function(q, v):
        return attention(q, q, v)

    for sample in ((4, 4), (4, 6)):
        inputs = torch.randn(2, 2, 3, sample[0]), torch.randn(2, 2, 3, sample[1])
        for program in programs(function, inputs, ({3: ANY}, {3: ANY})):
            for width, of_values in ((5, 5), (5, 7), (1, 3), (3, 1)):
                q, v = torch.randn(2, 2, 3, width), torch.randn(2, 2, 3, of_values)
                torch.testing.assert_close(program(q, v), function(q, v))
