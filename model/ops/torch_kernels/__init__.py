"""The engine "torch": the operations of model/ops in torch's own, on any device.

May import `model/ops/types.py`.
"""

from dreamer_study.model.ops.torch_kernels.attention import attend_depth, attend_sequence
from dreamer_study.model.ops.torch_kernels.loss import cross_entropy_sum
from dreamer_study.model.ops.torch_kernels.norms import rms_norm, split_heads
from dreamer_study.model.ops.torch_kernels.products import (
    expert_weights,
    mixed_product,
    mixed_weights,
    swiglu_experts,
)
from dreamer_study.model.ops.torch_kernels.recurrent_experts import gradient_taps
from dreamer_study.model.ops.torch_kernels.routing import route, routing_keys

__all__ = [
    "attend_depth",
    "attend_sequence",
    "cross_entropy_sum",
    "expert_weights",
    "gradient_taps",
    "mixed_product",
    "mixed_weights",
    "rms_norm",
    "route",
    "routing_keys",
    "split_heads",
    "swiglu_experts",
]
