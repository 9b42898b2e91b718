"""The inverse of the short-time Fourier transform, to a length that is a size."""

from __future__ import annotations

from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer

torch: Any = lazy("torch")


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
