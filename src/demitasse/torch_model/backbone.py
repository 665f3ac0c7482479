"""How Hugging Face models are built, in one place.

It finds the list of layers, and whatever the model applies after the last one (the final norm), by watching a forward
pass instead of by a table of names. It gives the pooled state at every depth from one pass, and a truncated model whose
config says so. The promise: the state at depth k is exactly the output of the model truncated at k.
"""

from __future__ import annotations

import copy
import inspect
import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from demitasse.errors import BackboneError

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

_KERNELS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
# Lists in a config that may have as many entries as there are layers, but are not about layers.
_NOT_PER_LAYER = {"architectures", "pos_att_type"}


@dataclass(frozen=True, eq=False)
class Backbone:
    """A transformer, where its layers are, and what it applies after the last one."""

    model: PreTrainedModel
    layers_name: str  # such as "encoder.layer"
    tail_names: tuple[str, ...]  # modules applied after the last layer, such as ("final_norm",); often none
    width: int  # of the output token states
    depth: int  # how many layers are run
    runs_empty: bool = True  # whether transformers can build and run this architecture with no layers at all

    @property
    def layers(self) -> nn.ModuleList:
        """The transformer layers, first to last."""
        layers = self.model.get_submodule(self.layers_name)
        assert isinstance(layers, nn.ModuleList)
        return layers

    @property
    def name(self) -> str:
        """The class of the model, such as `BertModel`."""
        return type(self.model).__name__

    def truncated(self, depth: int) -> Backbone:
        """A model of the first `depth` layers that shares every weight with this one, which is not changed."""
        # Where transformers fails without layers, one is left in and never reached (see `states`).
        kept = depth if self.runs_empty else max(1, depth)
        config = _truncated_config(self.model.config, len(self.layers), kept)
        shared = [*self.model.parameters(), *self.model.buffers(), *self.layers]
        memo: dict[int, Any] = {id(part): part for part in shared}
        memo[id(self.model.config)] = config
        model = copy.deepcopy(self.model, memo)
        parent_name, _, list_name = self.layers_name.rpartition(".")
        setattr(model.get_submodule(parent_name), list_name, nn.ModuleList(self.layers[:kept]))
        return replace(self, model=model, depth=depth)

    def states(
        self,
        inputs: Mapping[str, Tensor],
        depths: Collection[int],
        pool: Callable[[Tensor], Tensor],
    ) -> dict[int, Tensor]:
        """`pool` of the token states (B, T, D) at each of `depths`, from one forward pass over `self.depth` layers.

        Each state is pooled as soon as it is computed, so token states of several depths are never in memory together.
        """
        pooled: dict[int, Tensor] = {}
        caller = threading.get_ident()
        tail = [self.model.get_submodule(name) for name in self.tail_names]

        def tap(depth: int) -> Callable[..., None]:
            def record(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> None:
                # Cuts share layers, so another thread may be running this same layer for another cut; while the hook
                # is being registered or removed, torch may call it there without `kwargs`.
                if threading.get_ident() != caller or kwargs is None:
                    return
                hidden = layer_input(args, kwargs)
                for after in tail:
                    hidden = after(hidden)
                pooled[depth] = pool(hidden)
                if depth == self.depth:
                    raise _Enough

            return record

        # The state at depth k is the input of layer k + 1, so anything between the two layers has been applied.
        taps = [
            layer.register_forward_pre_hook(tap(depth), with_kwargs=True)
            for depth, layer in enumerate(self.layers)
            if depth in depths
        ]
        try:
            last = forward(self.model, inputs)
            if self.depth in depths:
                pooled[self.depth] = pool(last)
        except _Enough:
            pass
        finally:
            for handle in taps:
                handle.remove()
        return pooled

    def parameters_at(self, depth: int) -> int:
        """How many parameters the model truncated at `depth` has."""
        dropped = sum(p.numel() for layer in list(self.layers)[depth:] for p in layer.parameters())
        return sum(p.numel() for p in self.model.parameters()) - dropped


def find_backbone(model: PreTrainedModel) -> Backbone:
    """`model` as a backbone, or a `BackboneError` that says why it cannot be cut."""
    model.eval()  # type: ignore[no-untyped-call]
    layers_name = _find_layers(model)
    tail_names, width = _watch(model, layers_name)
    backbone = Backbone(model, layers_name, tail_names, width, model.config.num_hidden_layers)
    backbone = replace(backbone, runs_empty=_runs_empty(backbone))
    _check_shallow(backbone)
    return backbone


class _Enough(Exception):  # noqa: N818 - not an error: the last state that is needed has been seen
    """Ends a forward pass at the input of a layer that should not run."""


def _find_layers(model: PreTrainedModel) -> str:
    """The name of the one `ModuleList` that has as many layers as the config says."""
    depth = getattr(model.config, "num_hidden_layers", None)
    if not isinstance(depth, int):
        raise BackboneError(f"{type(model).__name__} does not say how many layers it has, so it cannot be cut")
    lists = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, nn.ModuleList) and len(module) == depth
    }
    # A list inside another (the parts of a layer, the experts of a mixture) is not the list of layers. A model cut
    # to no layers at all has one empty list.
    outermost = [name for name in lists if not any(name.startswith(f"{other}.") for other in lists)]
    if not outermost:
        raise BackboneError(
            f"{type(model).__name__} has no list of {depth} layers (its layers are shared or nested), "
            "so it cannot be cut"
        )
    if len(outermost) > 1:
        raise BackboneError(
            f"{type(model).__name__} has several lists of {depth} layers ({', '.join(outermost)}), so it cannot be cut"
        )
    return str(outermost[0])


def _watch(model: PreTrainedModel, layers_name: str) -> tuple[tuple[str, ...], int]:
    """The modules that run between the last layer and the output, and the width of that output.

    Follows the values through one forward pass: a module belongs to the tail if its input is the output of the one
    before it, until that equals the output of the model.
    """
    layers = model.get_submodule(layers_name)
    assert isinstance(layers, nn.ModuleList)
    calls: list[tuple[str, Tensor, Tensor]] = []  # (module, input, output), in the order they ran
    order: list[int] = []  # which layers ran

    def log_call(name: str) -> Callable[..., None]:
        def record(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
            before, after = layer_input(args, kwargs), layer_output(output)
            if isinstance(before, Tensor) and isinstance(after, Tensor):
                calls.append((name, before, after))

        return record

    def log_layer(index: int) -> Callable[..., None]:
        def record(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
            calls.clear()  # only what follows the last layer matters
            order.append(index)
            calls.append((f"{layers_name}.{index}", layer_output(output), layer_output(output)))

        return record

    handles = [layer.register_forward_hook(log_layer(i)) for i, layer in enumerate(layers)]
    for name, module in model.named_modules():
        if not name.startswith(f"{layers_name}.") and not any(module.children()):
            handles.append(module.register_forward_hook(log_call(name), with_kwargs=True))
    try:
        with torch.no_grad():
            output = forward(model, _sample_inputs(model))
    finally:
        for handle in handles:
            handle.remove()
    if order != list(range(len(layers))):
        raise BackboneError(
            f"{type(model).__name__} does not run each of its {len(layers)} layers once and in order "
            "(its layers are shared), so it cannot be cut"
        )
    # A model without layers needs no tail: its only state is its output.
    return _tail_of(calls, output) if order else (), output.shape[-1]


def _tail_of(calls: list[tuple[str, Tensor, Tensor]], output: Tensor) -> tuple[str, ...]:
    """The modules of `calls` that lead from the output of the first to `output`; none where that cannot be followed.

    Then either something belongs to the last layer without being inside it, like DeBERTa's convolution, or the model
    does something that no cut can reproduce: `_check_shallow` tells the two apart.
    """
    hidden, tail = calls[0][2], list[str]()
    for module, before, after in calls[1:]:
        if torch.equal(hidden, output):
            break
        if before.shape == hidden.shape and torch.equal(before, hidden):
            tail.append(module)
            hidden = after
    return tuple(tail) if torch.equal(hidden, output) else ()


def _runs_empty(backbone: Backbone) -> bool:
    """Whether transformers accepts an empty list of layers: DeBERTa's forward pass and ModernBERT's config do not."""
    try:
        empty = backbone.truncated(0).model
        type(empty.config).from_dict(empty.config.to_dict())
        with torch.no_grad():
            forward(empty, _sample_inputs(empty))
    except Exception:  # whatever it raises, it does not
        return False
    return True


def _check_shallow(backbone: Backbone) -> None:
    """Refuse a model whose states at depths 0 and 1 differ from those of the model truncated there."""
    inputs = _sample_inputs(backbone.model)
    for depth in range(min(2, backbone.depth)):
        with torch.no_grad():
            inside, alone = (
                backbone.truncated(kept).states(inputs, [depth], lambda hidden: hidden)[depth]
                for kept in (depth + 1, depth)
            )
        if not torch.allclose(inside.float(), alone.float(), atol=1e-3, rtol=1e-3):
            raise BackboneError(
                f"{backbone.name} truncated at {depth} layers gives different states than inside the full model, "
                "so it cannot be cut"
            )


def _sample_inputs(model: PreTrainedModel) -> dict[str, Tensor]:
    vocabulary = len(model.get_input_embeddings().weight)  # type: ignore[arg-type]
    padding = getattr(model.config, "pad_token_id", None)
    ids = [token for token in range(min(64, vocabulary)) if token != padding][-8:]
    tokens = torch.tensor(ids, device=model.device).reshape(2, -1)
    return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}


def forward(model: nn.Module, inputs: Mapping[str, Tensor]) -> Tensor:
    """The last token states (B, T, D) of `model`."""
    # Decoders would otherwise build a cache of keys and values that is never used.
    extra = {"use_cache": False} if "use_cache" in inspect.signature(model.forward).parameters else {}
    with _attention_for_any_shape(inputs["input_ids"].device):
        output: Tensor = model(**inputs, **extra).last_hidden_state
    return output


def _attention_for_any_shape(device: torch.device) -> AbstractContextManager[None]:
    """Leave cuDNN's attention out on a GPU.

    It makes a plan for every new shape, which takes longer than the batch, and batches of texts are of hundreds of
    shapes.
    """
    return sdpa_kernel(_KERNELS) if device.type == "cuda" else nullcontext()


def layer_input(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The token states in the arguments of a layer."""
    return args[0] if args else kwargs.get("hidden_states")


def layer_output(output: Any) -> Any:
    """The token states in the output of a layer."""
    return output[0] if isinstance(output, tuple) else output


def _truncated_config(config: PreTrainedConfig, depth: int, kept: int) -> PreTrainedConfig:
    """`config` for the first `kept` of `depth` layers, with every list of one entry per layer truncated too."""
    shorter = copy.deepcopy(config)
    for key, value in vars(config).items():
        if isinstance(value, (list, tuple)) and len(value) == depth and key not in _NOT_PER_LAYER:
            setattr(shorter, key, value[:kept])
    shorter.num_hidden_layers = kept
    return shorter
