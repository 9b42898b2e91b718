"""A patch, to be copied: replace the target, the reason, the reproducer and the body."""

from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer

torch: Any = lazy("torch")  # bound to the real module when a replacement first runs


def a_slope_by_length() -> Reproducer:
    """The smallest export that fails without the patch; classes of torch are made inside the function."""

    class Slope(torch.nn.Module):
        def forward(self, x):
            return x * torch.linspace(0, 1, x.shape[1])

    any_size = torch.export.Dim.DYNAMIC
    return Reproducer(
        Slope(),
        inputs=dict(x=torch.randn(2, 6)),
        dynamic_shapes=dict(x={0: any_size, 1: any_size}),
        accepts=[dict(x=torch.randn(3, 9)), dict(x=torch.randn(1, 1))],  # the program must equal eager
        rejects=[],  # both must raise
    )


@patch(
    "torch:linspace",  # module:path, also module:Class.method and module:TABLE[key]
    family="mymodels",
    versions="torch>=2.9",  # a range of one distribution; the patch is skipped outside of it
    why="the operator takes the number of steps as a plain int, so a size is fixed to the sample's",
    see="",  # an upstream issue that you have read
    obsolete="when linspace takes a symbolic number of steps",
    reproducer=a_slope_by_length,
    around=True,  # the function gets the original as its first argument
)
def linspace(original: Any, start: Any, end: Any, steps: Any, **options: Any) -> Any:
    if not isinstance(steps, torch.SymInt):
        return original(start, end, steps, **options)
    position = torch.arange(steps, device=options.get("device"))
    last = torch.sym_max(steps - 1, 1)
    return (start + (end - start) * (position / last)).to(options.get("dtype") or torch.get_default_dtype())


if __name__ == "__main__":
    from yobx import autopatch

    print("without it:", a_slope_by_length().run().stage)
    with autopatch.activate("mymodels"):
        print("with it:   ", a_slope_by_length().run().stage)
