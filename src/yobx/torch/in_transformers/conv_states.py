"""The last tokens that a convolution of linear attention keeps, from prompts shorter and longer than its kernel."""

from __future__ import annotations

from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer

torch: Any = lazy("torch")


def a_prompt_shorter_than_the_kernel() -> Reproducer:
    from transformers.cache_utils import LinearAttentionLayer

    class Convolution(torch.nn.Module):
        def forward(self, x):
            layer = LinearAttentionLayer()
            seen = layer.update_conv_state(x, conv_kernel_size=4)
            causal = torch.nn.functional.conv1d(seen, torch.ones(3, 1, 4), padding=3, groups=3)[..., : seen.shape[-1]]
            return causal[..., -x.shape[-1] :], layer.conv_states[0]

    dynamic = torch.export.Dim.DYNAMIC
    return Reproducer(
        Convolution(),
        inputs=dict(x=torch.randn(2, 3, 6)),
        dynamic_shapes=dict(x={0: dynamic, 2: dynamic}),
        accepts=[dict(x=torch.randn(n, 3, m)) for n, m in ((1, 9), (2, 4), (2, 3), (3, 1))],
    )


@patch(
    "transformers.cache_utils:LinearAttentionLayer.update_conv_state",
    family="transformers",
    versions="transformers>=5.24",
    why="whether a prompt has to be padded to the kernel's size is asked in Python, so the program is for long prompts or for "
    "short ones; zeros in front of any prompt change nothing",
    obsolete="when LinearAttentionLayer of transformers pads without asking how long the prompt is",
    reproducer=a_prompt_shorter_than_the_kernel,
)
def update_conv_state(
    self, conv_states: torch.Tensor, state_idx: int = 0, conv_kernel_size: int | None = None, **kwargs
) -> torch.Tensor:
    """
    Update the linear attention cache in-place, and return the necessary conv states.

    Args:
        conv_states (`torch.Tensor`): The new conv states to cache.

    Returns:
        `torch.Tensor`: The updated conv states.
    """
    # Lazy initialization
    if not self.is_conv_states_initialized[state_idx]:
        self.lazy_initialization(conv_states=conv_states, state_idx=state_idx, conv_kernel_size=conv_kernel_size)

    # This is prefill, simply pad the conv_states if necessary
    if not self.has_previous_state[state_idx]:
        full_conv_states = conv_states
        self.has_previous_state[state_idx] = True
        # In this case, need to pad it to fit the conv_kernel_size
        length = full_conv_states.shape[-1]
        padding_length = self.conv_kernel_size[state_idx] - (0 if isinstance(length, torch.SymInt) else length)
        if not self.record_past and padding_length > 0:
            full_conv_states = torch.nn.functional.pad(full_conv_states, (padding_length, 0), value=0)
    # We need to return the concatenation of the current state and the full new one so that the causal conv can see the
    # correct left context - however we usually cache only the last part
    else:
        full_conv_states = torch.cat([self.conv_states[state_idx], conv_states], dim=-1)

    # Usually, keep only the last `conv_kernel_size` tokens
    if not self.record_past:
        # Copy instead of assigning to keep the static address
        self.conv_states[state_idx].copy_(full_conv_states[..., -self.conv_kernel_size[state_idx] :])
    # If we need to record the past, keep the full states for now to be able to rollback later
    else:
        self.conv_states[state_idx] = full_conv_states

    # Return full states no matter what
    return full_conv_states
