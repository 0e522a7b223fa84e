"""Sum the gradients of weights that several products of one forward multiply, in one array.

Autograd would give each product a gradient of its own and add them: for experts that every depth
uses, most of these passes over memory are avoidable. Two private functions of torch are needed, as
nothing public distinguishes one running backward pass from another, or says whether it will come to
a node:
`torch._C._current_graph_task_id` and `torch._C._will_engine_execute_node`. Without them each
product makes its own gradient: slower, the same result.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dreamer_study.model.ops.native.library import call


class SharedWeights(torch.autograd.Function):
    """Pass weights [E, I, O] on unchanged; all products of the result add to one gradient.

    There is one such gradient for each backward pass. A product finds this node as the `grad_fn` of
    its weights (`gradient_of`). When all products have added their part, autograd comes to
    `backward`, which hands the sum on: hooks on the result itself get None. Raises RuntimeError for
    gradients of gradients.
    """

    @staticmethod
    def forward(ctx, weights: Tensor) -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.transposed = None
        ctx.gradients = {}  # by backward pass: one may run within another
        return weights.view_as(weights)

    @staticmethod
    def backward(ctx, gradient: Tensor | None) -> Tensor | None:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "gradients of the C engine cannot be differentiated; leave out create_graph, or set"
                " DREAMER_NATIVE=0"
            )
        task_id = getattr(torch._C, "_current_graph_task_id", lambda: None)
        ctx.transposed = None
        # `total` is of the products that found this node, `gradient` of all others
        total = ctx.gradients.pop(task_id(), None)
        if gradient is None:
            return total
        if total is None:
            return gradient
        return gradient + total


def transpose(weights: Tensor) -> Tensor:
    """Transpose weights [E, I, O] to contiguous [E, O, I], once for all that share them."""
    node = weights.grad_fn
    transposed = getattr(node, "transposed", None)
    if transposed is None:
        transposed = weights.new_empty(weights.transpose(1, 2).shape)
        call("transpose_weights", weights, transposed)
        if hasattr(node, "transposed"):
            node.transposed = transposed
    return transposed


def gradient_of(weights: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return (total, returned), where a product's backward pass puts the weights' gradient.

    It adds the gradient to `total`, and returns `returned` to autograd. `returned` is None where
    SharedWeights hands the total on, else the total.
    """
    gradients = getattr(weights.grad_fn, "gradients", None)
    task_id = getattr(torch._C, "_current_graph_task_id", None)
    will_execute = getattr(torch._C, "_will_engine_execute_node", None)
    if (
        gradients is None
        or task_id is None
        or will_execute is None
        or not will_execute(weights.grad_fn)
    ):
        own = torch.zeros_like(weights)
        return own, own
    if task_id() not in gradients:
        gradients[task_id()] = torch.zeros_like(weights)
    return gradients[task_id()], None
