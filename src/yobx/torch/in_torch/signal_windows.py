"""The windows of ``torch.signal``, which ask in Python whether their length is 0 or 1."""

from __future__ import annotations

from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer
from yobx.torch.in_torch.counts import unless_single

torch: Any = lazy("torch")

# Those of hann, hamming, blackman, nuttall and general_hamming are made by general_cosine.
WINDOWS: dict[str, dict[str, Any]] = {
    "exponential": {},
    "cosine": {},
    "gaussian": {},
    "kaiser": {},
    "bartlett": {},
    "general_cosine": dict(a=[0.5, 0.3, 0.2]),
}


def _lengths(name: str) -> Any:
    def windows_of_one_and_of_several() -> Reproducer:
        class Window(torch.nn.Module):
            def forward(self, x):
                window = getattr(torch.signal.windows, name)
                return [x * window(x.shape[0], sym=sym, **WINDOWS[name]) for sym in (True, False)]

        return Reproducer(
            Window(),
            inputs=dict(x=torch.randn(5)),
            dynamic_shapes=dict(x={0: torch.export.Dim.DYNAMIC}),
            accepts=[dict(x=torch.randn(n)) for n in (1, 2, 3, 8, 0)],
        )

    return windows_of_one_and_of_several


for _name in WINDOWS:

    @patch(
        f"torch.signal.windows.windows:{_name}",
        family="torch",
        name=f"signal_{_name}",
        versions="torch>=2.9",
        around=True,
        why="a window of one element is 1 by a branch in Python, and of none by another; without them, it is divided by 0",
        obsolete="when torch.signal computes the window of one element without a branch",
        reproducer=_lengths(_name),
    )
    def window(original: Any, M: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(M, torch.SymInt) or kwargs.get("center") is not None:
            return original(M, *args, **kwargs)
        several = original(torch.sym_max(M, 2), *args, **kwargs)[:M]
        return unless_single(M, several, 1.0)
