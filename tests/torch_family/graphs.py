"""Random small graphs: modules of a few operators over two to four inputs whose sizes broadcast in any direction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

import torch
from hypothesis import strategies as st

Shape = tuple[int, ...]


class Operator(NamedTuple):
    """A function of tensors that may raise on tensors that it is not meant for."""

    arity: int
    function: Callable[..., torch.Tensor]


def last(x):
    """The size of the last dimension."""
    return x.shape[-1] if x.ndim else 1


def put(x, y):
    z = x.clone()
    z[...] = y
    return z


OPERATORS = {
    # elementwise and broadcast
    "add": Operator(2, lambda x, y: x + y),
    "sub": Operator(2, lambda x, y: x - y),
    "mul": Operator(2, lambda x, y: x * y),
    "maximum": Operator(2, torch.maximum),
    "hypot": Operator(2, torch.hypot),
    "where": Operator(3, lambda c, x, y: torch.where(c > 0, x, y)),
    "masked_fill": Operator(2, lambda x, y: x.masked_fill(y > 0, 0.5)),
    "lerp": Operator(2, lambda x, y: torch.lerp(x, y, 0.3)),
    "addcmul": Operator(3, torch.addcmul),
    "add in place": Operator(2, lambda x, y: x.clone().add_(y)),
    "put": Operator(2, put),
    "relu": Operator(1, torch.relu),
    "exp": Operator(1, lambda x: x.clamp(-2, 2).exp()),
    "softmax": Operator(1, lambda x: x.softmax(-1)),
    # matrices
    "matmul": Operator(2, torch.matmul),
    "matmul with its transpose": Operator(1, lambda x: x @ x.transpose(-1, -2)),
    "outer": Operator(2, lambda x, y: x[..., None] * y[..., None, :]),
    # joins
    "cat first": Operator(2, lambda x, y: torch.cat([x, y], 0)),
    "cat last": Operator(2, lambda x, y: torch.cat([x, y], -1)),
    "cat itself": Operator(1, lambda x: torch.cat([x, x], -1)),
    "stack": Operator(2, lambda x, y: torch.stack([x, y])),
    # shapes
    "transpose": Operator(1, lambda x: x.transpose(0, -1)),
    "flatten": Operator(1, lambda x: x.reshape(-1)),
    "rows": Operator(1, lambda x: x.reshape(x.shape[0], -1)),
    "merged": Operator(1, lambda x: x.reshape(x.shape[0] * x.shape[1], *x.shape[2:])),
    "unsqueeze first": Operator(1, lambda x: x.unsqueeze(0)),
    "unsqueeze last": Operator(1, lambda x: x.unsqueeze(-1)),
    "contiguous": Operator(1, lambda x: x.transpose(0, -1).contiguous()),
    "expand as": Operator(2, lambda x, y: x.expand_as(x + y)),
    "expand by a size": Operator(2, lambda x, y: x.unsqueeze(0).expand(y.shape[0], *x.shape)),
    "first": Operator(1, lambda x: x[0]),
    "cut as another": Operator(2, lambda x, y: x[..., : last(y)]),
    "what another leaves": Operator(2, lambda x, y: x[y.shape[0] :]),
    "end as long as another": Operator(2, lambda x, y: x[..., -last(y) :]),
    "between numbers": Operator(1, lambda x: x[..., 1:3]),
    "second half": Operator(1, lambda x: x[x.shape[0] // 2 :]),
    "flip": Operator(1, lambda x: x.flip(0)),
    "padded": Operator(1, lambda x: torch.nn.functional.pad(x, (1, 0))),
    "repeated": Operator(1, lambda x: x.repeat(*[1] * (x.ndim - 1), 2)),
    # reductions
    "sum first": Operator(1, lambda x: x.sum(0)),
    "sum last": Operator(1, lambda x: x.sum(-1)),
    "mean last": Operator(1, lambda x: x.mean(-1, keepdim=True)),
    "amax first": Operator(1, lambda x: x.amax(0, keepdim=True)),
    "sum": Operator(1, lambda x: x.sum()),
    "cumsum": Operator(1, lambda x: x.cumsum(0)),
    # sizes that build new tensors
    "new zeros": Operator(1, lambda x: x.new_zeros(x.shape) + 1),
    "ones of another's shape": Operator(2, lambda x, y: x + torch.ones(y.shape)),
    "ones of the broadcast's shape": Operator(2, lambda x, y: torch.ones((x + y).shape)),
    "ones of two sizes": Operator(2, lambda x, y: torch.ones(x.shape[0], last(y))),
    "times its size": Operator(1, lambda x: x * x.shape[0]),
    "over its size": Operator(1, lambda x: x / (last(x) + 1)),
    "positions": Operator(1, lambda x: x + torch.arange(last(x), dtype=x.dtype)),
    "causal": Operator(1, lambda x: x * torch.ones(last(x), last(x)).tril()),
}


@dataclass(frozen=True)
class Step:
    """An operator on values: the inputs come first, then what earlier steps gave."""

    name: str
    operands: tuple[int, ...]

    def __call__(self, values: list[torch.Tensor]) -> torch.Tensor:
        return OPERATORS[self.name].function(*(values[i] for i in self.operands))


@dataclass(frozen=True)
class Graph:
    """A module, a sample, and the dimensions declared dynamic.

    Attributes:
        sample: the shapes of the inputs.
        labels: a letter for every dimension; those of one letter have one size or are 1, as a broadcast needs.
        dynamic: the dynamic dimensions of every input.
        steps: what the module does.
        whole: whether all that no other step uses is returned, or only the last.
        seed: of the draws.
    """

    sample: tuple[Shape, ...]
    labels: tuple[str, ...]
    dynamic: tuple[frozenset[int], ...]
    steps: tuple[Step, ...]
    whole: bool
    seed: int

    def run(self, inputs: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
        values = list(inputs)
        for step in self.steps:
            values.append(step(values))
        used = {operand for step in self.steps for operand in step.operands}
        unused = [i for i in range(len(inputs), len(values)) if i not in used]
        return [values[i] for i in (unused if self.whole else unused[-1:])]

    def module(self) -> torch.nn.Module:
        return _Module(self)

    def draws(self) -> Iterator[tuple[Shape, ...]]:
        """Shapes that mostly fit one another: dimensions of one letter agree, or are 1; a few do neither."""
        random = Random(self.seed)
        for number in range(10):
            choices = [1, 2, 3, 5, 6] if number % 3 else [0, 1, 2, 4]
            sizes = {letter: random.choice(choices) for letter in "abcd"}
            yield tuple(
                tuple(
                    size if i not in dynamic else self._size(sizes[letter], random)
                    for i, (size, letter) in enumerate(zip(shape, letters))
                )
                for shape, letters, dynamic in zip(self.sample, self.labels, self.dynamic)
            )
        # Each dimension alone, and all at 0 or 1.
        for i, dims in enumerate(self.dynamic):
            for dim in dims:
                yield self._with({(i, dim): 1 if self.sample[i][dim] != 1 else 4})
        for value in (0, 1):
            yield self._with({(i, dim): value for i, dims in enumerate(self.dynamic) for dim in dims})

    @staticmethod
    def _size(size: int, random: Random) -> int:
        chance = random.random()
        return 1 if chance < 0.25 else 7 if chance > 0.95 else size

    def _with(self, sizes: dict[tuple[int, int], int]) -> tuple[Shape, ...]:
        return tuple(
            tuple(sizes.get((i, dim), size) for dim, size in enumerate(shape)) for i, shape in enumerate(self.sample)
        )


class _Module(torch.nn.Module):
    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph

    def forward(self, *inputs):
        return self.graph.run(inputs)


def tensors(shapes: tuple[Shape, ...]) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(sum((i + 1) * sum(shape) for i, shape in enumerate(shapes)))
    return tuple(torch.randn(shape, generator=generator) for shape in shapes)


def outcome(function: Callable[..., list[torch.Tensor]], inputs: tuple[torch.Tensor, ...]) -> list[torch.Tensor] | None:
    """What a function gives; None where it raises."""
    try:
        return list(function(*inputs))
    except Exception:
        return None


def taken_in_other_sizes(graph: Graph) -> Graph:
    """The graph with those dimensions static in which it takes no size but the sample's."""
    model, other = graph.module(), [set() for _ in graph.sample]
    for shapes in graph.draws():
        if outcome(model, tensors(shapes)) is None:
            continue
        for found, dims, shape, sample in zip(other, graph.dynamic, shapes, graph.sample):
            found |= {dim for dim in dims if shape[dim] != sample[dim]}
    return Graph(graph.sample, graph.labels, tuple(map(frozenset, other)), graph.steps, graph.whole, graph.seed)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Graphs that run on their sample."""
    ranks = draw(st.lists(st.sampled_from([2, 1, 3, 0, 4]), min_size=2, max_size=4), label="ranks")
    labels = tuple("dcba"[4 - rank :] for rank in ranks)
    sizes = {letter: draw(st.integers(1, 5)) for letter in "abcd"}
    sample = tuple(tuple(1 if draw(st.integers(0, 3)) == 3 else sizes[letter] for letter in word) for word in labels)
    dynamic = tuple(frozenset(dim for dim in range(rank) if draw(st.integers(0, 6)) < 6) for rank in ranks)
    values, steps = list(tensors(sample)), []
    for name in draw(st.lists(st.sampled_from(sorted(OPERATORS)), min_size=2, max_size=7), label="operators"):
        operands = [draw(st.integers(0, len(values) - 1)) for _ in range(OPERATORS[name].arity)]
        if draw(st.booleans()):
            operands[0] = len(values) - 1
        step = Step(name, tuple(operands))
        try:
            value = step(values)
        except (IndexError, RuntimeError):
            continue
        if value.ndim <= 5 and value.numel() <= 50_000:
            values.append(value)
            steps.append(step)
    if not steps:
        steps.append(Step("add", (0, 0)))
    graph = Graph(sample, labels, dynamic, tuple(steps), draw(st.booleans()), draw(st.integers(0, 2**16)))
    return taken_in_other_sizes(graph)
