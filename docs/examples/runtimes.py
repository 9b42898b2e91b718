"""What AOTInductor, ExecuTorch and OpenVINO make of programs exported with patches.

YOBX_PATCH=torch python runtimes.py                          run what is installed, print a table
YOBX_PATCH=torch python runtimes.py --json runtimes.json     and keep it
"""

import importlib.metadata
import importlib.util
import json
import subprocess
import sys
import warnings

import torch

warnings.filterwarnings("ignore")


class Rows(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)
        self.norm = torch.nn.LayerNorm(8)

    def forward(self, x):
        return self.norm(self.linear(x)).relu()


class Add(torch.nn.Module):
    def forward(self, x, y):
        return x + y


class AddAndFlatten(torch.nn.Module):
    def forward(self, x, y):
        return (x + y).reshape(-1)


def aotinductor(ep):
    with torch.no_grad():
        return torch._inductor.aoti_load_package(torch._inductor.aoti_compile_and_package(ep))


def openvino(ep):
    import openvino

    model = openvino.compile_model(openvino.convert_model(ep), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return lambda *args: torch.from_numpy(model([arg.numpy() for arg in args])[0])


def executorch(ep):
    from executorch.exir import to_edge_transform_and_lower
    from executorch.runtime import Runtime

    buffer = to_edge_transform_and_lower(ep).to_executorch().buffer
    program = Runtime.get().load_program(buffer)
    method = program.load_method("forward")

    def run(*args, alive=(program, buffer)):  # the method reads from both
        return method.execute(list(args))[0].clone()

    return run


RUNTIMES = {
    "AOTInductor": (aotinductor, "torch"),
    "ExecuTorch": (executorch, "executorch"),
    "OpenVINO": (openvino, "openvino"),
}
PAIRS = [[(3, 7), (3, 7)], [(3, 7), (3, 1)], [(3, 1), (3, 7)], [(1, 5), (4, 5)]]
CASES = {
    "a layer, from a batch of two": (Rows, [(2, 4, 8)], [[(1, 4, 8)], [(3, 5, 8)], [(1, 1, 8)], [(2, 9, 8)]]),
    "a layer, from a batch of one": (Rows, [(1, 4, 8)], [[(1, 4, 8)], [(3, 5, 8)], [(1, 1, 8)], [(2, 9, 8)]]),
    "an undecided broadcast": (Add, [(2, 5), (2, 5)], PAIRS),
    "its size used again": (AddAndFlatten, [(2, 5), (2, 5)], PAIRS),
}


def outcome(compile_it, model, sample, others):
    args = tuple(torch.randn(*shape) for shape in sample)
    shapes = tuple(dict.fromkeys((0, 1), torch.export.Dim.DYNAMIC) for _ in args)
    if compile_it is executorch:  # it plans its memory, and asks for a largest size
        shapes = tuple(
            {axis: torch.export.Dim(f"d{index}{axis}", min=1, max=16) for axis in (0, 1)} for index in range(len(args))
        )
    try:
        ep = torch.export.export(model, args, dynamic_shapes=shapes)
    except Exception as error:
        return f"export fails: {type(error).__name__}"
    try:
        program = compile_it(ep)
    except Exception as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        found = next((line for line in lines if "No conversion rule" in line), lines[0])
        return f"refused: {type(error).__name__}: {found[:160]}"
    for other in others:
        inputs = [torch.randn(*shape) for shape in other]
        expected = model(*inputs)
        try:
            got = program(*inputs)
        except Exception as error:
            return f"rejects {other}: {str(error).splitlines()[0][:160]}"
        if got.shape != expected.shape:
            return f"WRONG on {other}: gives {tuple(got.shape)}, eager {tuple(expected.shape)}"
        if not torch.allclose(got, expected, atol=1e-4):
            return f"WRONG on {other}: other numbers"
    return "equal to eager on all sizes"


def in_a_process(runtime, case):
    """The outcome of one case; a program that is wrong may take the process with it."""
    command = [sys.executable, __file__, runtime, case]
    done = subprocess.run(command, capture_output=True, text=True)
    found = [line.removeprefix("OUTCOME ") for line in done.stdout.splitlines() if line.startswith("OUTCOME ")]
    return found[0] if found else f"CRASHES: exit code {done.returncode}"


def main():
    if len(sys.argv) == 3 and sys.argv[1] in RUNTIMES:
        torch.manual_seed(0)
        make, sample, others = CASES[sys.argv[2]]
        print("OUTCOME", outcome(RUNTIMES[sys.argv[1]][0], make().eval(), sample, others), flush=True)
        return
    rows = []
    for runtime, (_, package) in RUNTIMES.items():
        installed = importlib.util.find_spec(package) is not None
        version = importlib.metadata.version(package) if installed else "not installed"
        for case in CASES if installed else [""]:
            found = in_a_process(runtime, case) if installed else "not run"
            rows.append(dict(runtime=runtime, version=version, case=case, outcome=found))
            print(f"{runtime:12} {version:14} {case:30} {found}", flush=True)
    if "--json" in sys.argv:
        with open(sys.argv[sys.argv.index("--json") + 1], "w") as file:
            json.dump(dict(schema=1, versions=dict(torch=torch.__version__), rows=rows), file, indent=1)


main()
