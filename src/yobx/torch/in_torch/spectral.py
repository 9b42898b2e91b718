"""Fourier transforms of a length of their own: a signal is cut or filled up to it."""

from __future__ import annotations

from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer
from yobx.torch.in_torch.composite import CompositeKernel
from yobx.torch.in_torch.sizes import expression, sample_decides, smaller

torch: Any = lazy("torch")


def _kernels(*names: str) -> list[CompositeKernel]:
    return [CompositeKernel(getattr(torch.ops.aten, f"fft_{name}").default) for name in names]


def _resized(self: Any, n: Any, dim: Any = None, norm: Any = None, *, half: bool = False) -> Any:
    """The signal as long as what its transform takes: ``n`` in each dimension; of the last one, one half if ``half``."""
    sizes = list(n) if isinstance(n, (list, tuple)) else [n]
    dims = list(range(-len(sizes), 0)) if dim is None else list(dim) if isinstance(dim, (list, tuple)) else [dim]
    if None in sizes or len(sizes) != len(dims):
        return self
    if half and sizes[-1] != -1:
        sizes[-1] = sizes[-1] // 2 + 1
    for dim, wanted in zip(dims, sizes, strict=True):
        if not -self.ndim <= dim < self.ndim or sample_decides(self.shape[dim], wanted) or wanted <= 0:
            continue
        size = self.shape[dim]
        kept = smaller(size, wanted)
        if expression(kept) != expression(size):
            self = torch.ops.aten.slice.Tensor(self, dim, 0, kept)
        if expression(kept) != expression(wanted):
            self = torch.constant_pad_nd(self, [0, 0] * (self.ndim - 1 - dim % self.ndim) + [0, wanted - kept])
    return self


def spectra_of_another_length() -> Reproducer:
    class Spectra(torch.nn.Module):
        def forward(self, x, y):
            return torch.fft.rfft(x, n=y.shape[0]).abs(), torch.fft.fft2(x, s=(16, y.shape[0])).real

    dynamic = torch.export.Dim.DYNAMIC
    return Reproducer(
        Spectra(),
        inputs=dict(x=torch.randn(2, 5), y=torch.randn(4)),
        dynamic_shapes=dict(x={0: dynamic, 1: dynamic}, y={0: dynamic}),
        accepts=[dict(x=torch.randn(n, m), y=torch.randn(k)) for n, m, k in ((3, 4, 4), (1, 3, 7), (1, 1, 2), (20, 19, 20))],
    )


@patch(
    "torch:ops.aten.fft_fft.default",
    family="torch",
    name="fft",
    versions="torch>=2.9",
    slots=lambda: _kernels(
        *("fft", "ifft", "rfft", "ihfft", "fft2", "ifft2", "rfft2", "ihfft2", "fftn", "ifftn", "rfftn", "ihfftn")
    ),
    around=True,
    why="a signal is cut or filled up to the length of its transform; the C++ kernel guards on which of the two it was",
    obsolete="when the C++ kernels of torch.fft compare lengths without guarding",
    reproducer=spectra_of_another_length,
)
def fft(original: Any, self: Any, n: Any = None, *args: Any, **kwargs: Any) -> Any:
    return original(_resized(self, n, *args, **kwargs), n, *args, **kwargs)


def signal_of_another_length() -> Reproducer:
    class Signal(torch.nn.Module):
        def forward(self, x, y):
            spectrum = torch.fft.rfft(x)
            return torch.fft.irfft(spectrum, n=y.shape[0]), torch.fft.hfft(spectrum, n=16)

    dynamic = torch.export.Dim.DYNAMIC
    return Reproducer(
        Signal(),
        inputs=dict(x=torch.randn(2, 5), y=torch.randn(4)),
        dynamic_shapes=dict(x={0: dynamic, 1: dynamic}, y={0: dynamic}),
        accepts=[dict(x=torch.randn(n, m), y=torch.randn(k)) for n, m, k in ((3, 4, 4), (1, 3, 7), (1, 2, 2), (2, 39, 20))],
    )


@patch(
    "torch:ops.aten.fft_irfft.default",
    family="torch",
    name="irfft",
    versions="torch>=2.9",
    slots=lambda: _kernels("irfft", "hfft", "irfft2", "hfft2", "irfftn", "hfftn"),
    around=True,
    why="half a spectrum is cut or filled up to the length of its signal; the C++ kernel guards on which of the two it was",
    obsolete="when the C++ kernels of torch.fft compare lengths without guarding",
    reproducer=signal_of_another_length,
)
def irfft(original: Any, self: Any, n: Any = None, *args: Any, **kwargs: Any) -> Any:
    return original(_resized(self, n, *args, half=True, **kwargs), n, *args, **kwargs)
