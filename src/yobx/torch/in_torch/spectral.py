"""Fourier transforms, and the inverse of the short-time one, to a length of their own: a signal is cut or filled up to it."""

from __future__ import annotations

from collections.abc import Callable
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


def _to_the_length_of_another(transform: Callable[[Any, Any], Any], *sizes: tuple[int, int, int]) -> Reproducer:
    """Transforms of rows to the length of another tensor; of each further input the rows, their length, and that length."""

    class Transform(torch.nn.Module):
        def forward(self, x, y):
            return transform(x, y.shape[0])

    def inputs(rows: int, length: int, wanted: int) -> dict[str, Any]:
        return dict(x=torch.randn(rows, length), y=torch.randn(wanted))

    dynamic = torch.export.Dim.DYNAMIC
    return Reproducer(
        Transform(),
        inputs=inputs(2, 5, 4),
        dynamic_shapes=dict(x={0: dynamic, 1: dynamic}, y={0: dynamic}),
        accepts=[inputs(*each) for each in sizes],
    )


def spectra_of_another_length() -> Reproducer:
    def spectra(x: Any, n: Any) -> Any:
        return torch.fft.rfft(x, n=n).abs(), torch.fft.fft2(x, s=(16, n)).real

    return _to_the_length_of_another(spectra, (3, 4, 4), (1, 3, 7), (1, 1, 2), (20, 19, 20))


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
    def signals(x: Any, n: Any) -> Any:
        spectrum = torch.fft.rfft(x)
        return torch.fft.irfft(spectrum, n=n), torch.fft.hfft(spectrum, n=16)

    return _to_the_length_of_another(signals, (3, 4, 4), (1, 3, 7), (1, 2, 2), (2, 39, 20))


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


def there_and_back() -> Reproducer:
    class Spectrum(torch.nn.Module):
        def forward(self, x):
            window = torch.hann_window(8)
            spectrum = torch.stft(x, 8, 4, window=window, return_complex=True)
            return torch.istft(spectrum, 8, 4, window=window, length=x.shape[1]) - x

    return Reproducer(
        Spectrum(),
        inputs=dict(x=torch.randn(2, 32)),
        dynamic_shapes=dict(x={0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}),
        accepts=[dict(x=torch.randn(n, m)) for n, m in ((3, 40), (1, 34), (2, 13), (1, 32))],
    )


@patch(
    "torch:istft",
    family="torch",
    name="istft",
    versions="torch>=2.9",
    around=True,
    why="the operator takes the length as a plain int, so a size is fixed to the sample's",
    see="https://github.com/pytorch/pytorch/issues/176349",
    obsolete="when aten.istft takes its length as SymInt",
    reproducer=there_and_back,
)
def istft(
    original: Any,
    input: Any,
    n_fft: Any,
    hop_length: Any = None,
    win_length: Any = None,
    window: Any = None,
    center: bool = True,
    normalized: bool = False,
    onesided: Any = None,
    length: Any = None,
    return_complex: bool = False,
) -> Any:
    options = (n_fft, hop_length, win_length, window)
    if not isinstance(length, torch.SymInt):
        return original(input, *options, center, normalized, onesided, length, return_complex)
    signal = torch._refs.istft(input, *options, False, normalized, onesided, None, return_complex)
    start = n_fft // 2 if center else 0
    # Where windows add up to nothing in what is asked for, the operator raises.
    weight = torch.ones(win_length or n_fft, device=input.device) if window is None else window
    left = (n_fft - weight.shape[0]) // 2
    weight = torch.constant_pad_nd(weight, (left, n_fft - weight.shape[0] - left)).abs().square()
    envelope = torch.ops.aten.unfold_backward(
        weight.expand(1, input.shape[-1], n_fft), (1, signal.shape[-1]), 1, n_fft, hop_length or n_fft // 4
    )
    lowest = torch.constant_pad_nd(envelope, (0, length), 1.0).narrow(-1, start, length).amin()
    torch._assert_async(lowest >= 1e-11, "istft: the windows add up to nothing somewhere in the length")
    return torch.constant_pad_nd(signal, (0, length)).narrow(-1, start, length)
