"""MiniLM while it trains: stacked parameters, texts packed without padding, an exit at every depth 0 to 6.

An exit maps the mean x of a text's token states to W (x / |x|) + b, as demitasse does.
"""

from __future__ import annotations

import numpy as np
import torch
from places import folder
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional

DEPTH, WIDTH, HEADS = 6, 384, 12
_PARTS = ("query", "key", "value")


def varlen(q, k, v, bounds, longest):
    """Flash attention over packed texts; q, k, v are (T, heads, 32) in half precision on a GPU."""
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        bare = (0.0, False, False)  # no dropout, not causal, no mask to return
        return torch.ops.aten._flash_attention_forward(q, k, v, bounds, bounds, longest, longest, *bare)[0]
    return varlen_attn(q, k, v, bounds, bounds, longest, longest)


def padded(q, k, v, place, text, bounds, longest):  # noqa: PLR0913 - packed texts are that many tensors
    """The same with padding, on any device."""
    count = len(bounds) - 1
    at = text * longest + place
    grid = torch.stack([q, k, v]).new_zeros(3, count * longest, HEADS, q.shape[-1])
    grid = grid.index_copy(1, at, torch.stack([q, k, v])).view(3, count, longest, HEADS, -1).transpose(2, 3)
    lens = (bounds[1:] - bounds[:-1]).clamp(min=1)  # what fills up may be empty
    mask = torch.arange(longest, device=q.device)[None, :] < lens[:, None]
    out = functional.scaled_dot_product_attention(*grid, attn_mask=mask[:, None, None, :])
    return out.transpose(1, 2).reshape(count * longest, HEADS, -1)[at]


def before_attention(x, w, b):
    return functional.linear(x, w, b).view(-1, 3, HEADS, WIDTH // HEADS)


def after_attention(x, a, ow, ob, n1w, n1b, uw, ub, dw, db, n2w, n2b):  # noqa: PLR0913 - one layer's weights
    x = functional.layer_norm(x + functional.linear(a.reshape(-1, WIDTH), ow, ob), (WIDTH,), n1w, n1b, 1e-12)
    return functional.layer_norm(
        x + functional.linear(functional.gelu(functional.linear(x, uw, ub)), dw, db), (WIDTH,), n2w, n2b, 1e-12
    )


class Student(nn.Module):
    """Parameters in fp32; computed in `dtype` (bf16 on a GPU)."""

    def __init__(self, *, dtype=torch.float32, attention="pad", compiled=False):
        super().__init__()

        def p(*shape):
            return nn.Parameter(torch.zeros(*shape))

        self.words, self.places, self.types = p(30522, WIDTH), p(512, WIDTH), p(2, WIDTH)
        self.norm = p(2, WIDTH)
        self.qkv, self.out = p(DEPTH, 3 * WIDTH, WIDTH), p(DEPTH, WIDTH, WIDTH)
        self.up, self.down = p(DEPTH, 4 * WIDTH, WIDTH), p(DEPTH, WIDTH, 4 * WIDTH)
        self.qkv_b, self.out_b, self.up_b, self.down_b = (
            p(DEPTH, 3 * WIDTH),
            p(DEPTH, WIDTH),
            p(DEPTH, 4 * WIDTH),
            p(DEPTH, WIDTH),
        )
        self.norms = p(DEPTH, 4, WIDTH)  # after attention: weight, bias; after the second part: weight, bias
        self.exit_w, self.exit_b = p(DEPTH + 1, WIDTH, WIDTH), p(DEPTH + 1, WIDTH)
        self.dtype, self.attention = dtype, attention
        self.before, self.after = before_attention, after_attention
        if compiled:
            self.before = torch.compile(before_attention, dynamic=True)
            self.after = torch.compile(after_attention, dynamic=True)

    @torch.no_grad()
    def read_bert(self, weights):
        """Take over the weights of a BertModel; exits are left as they are."""
        w = weights
        self.words.copy_(w["embeddings.word_embeddings.weight"])
        self.places.copy_(w["embeddings.position_embeddings.weight"])
        self.types.copy_(w["embeddings.token_type_embeddings.weight"])
        self.norm.copy_(torch.stack([w["embeddings.LayerNorm.weight"], w["embeddings.LayerNorm.bias"]]))
        for i in range(DEPTH):

            def g(name, i=i):
                return w[f"encoder.layer.{i}.{name}"].float()

            self.qkv[i] = torch.cat([g(f"attention.self.{x}.weight") for x in _PARTS])
            self.qkv_b[i] = torch.cat([g(f"attention.self.{x}.bias") for x in _PARTS])
            self.out[i], self.out_b[i] = g("attention.output.dense.weight"), g("attention.output.dense.bias")
            self.up[i], self.up_b[i] = g("intermediate.dense.weight"), g("intermediate.dense.bias")
            self.down[i], self.down_b[i] = g("output.dense.weight"), g("output.dense.bias")
            self.norms[i] = torch.stack(
                [g(f"{x}.LayerNorm.{y}") for x in ("attention.output", "output") for y in ("weight", "bias")]
            )
        return self

    def bert(self):
        """The weights as a BertModel has them (without its pooler)."""
        w = {
            "embeddings.word_embeddings.weight": self.words,
            "embeddings.position_embeddings.weight": self.places,
            "embeddings.token_type_embeddings.weight": self.types,
            "embeddings.LayerNorm.weight": self.norm[0],
            "embeddings.LayerNorm.bias": self.norm[1],
        }
        for i in range(DEPTH):
            at = f"encoder.layer.{i}."
            for j, x in enumerate(_PARTS):
                w[f"{at}attention.self.{x}.weight"] = self.qkv[i, j * WIDTH : (j + 1) * WIDTH]
                w[f"{at}attention.self.{x}.bias"] = self.qkv_b[i, j * WIDTH : (j + 1) * WIDTH]
            w[f"{at}attention.output.dense.weight"], w[f"{at}attention.output.dense.bias"] = self.out[i], self.out_b[i]
            w[f"{at}intermediate.dense.weight"], w[f"{at}intermediate.dense.bias"] = self.up[i], self.up_b[i]
            w[f"{at}output.dense.weight"], w[f"{at}output.dense.bias"] = self.down[i], self.down_b[i]
            for j, (x, y) in enumerate((x, y) for x in ("attention.output", "output") for y in ("weight", "bias")):
                w[f"{at}{x}.LayerNorm.{y}"] = self.norms[i, j]
        return {k: v.detach().float().cpu().contiguous() for k, v in w.items()}

    def pooled(self, ids, place, text, bounds, longest):
        """The mean token state (7, B, 384) of each packed text at every depth, in fp32."""
        d = self.dtype
        count = len(bounds) - 2
        x = functional.embedding(ids.long(), self.words) + functional.embedding(place, self.places) + self.types[0]
        x = functional.layer_norm(x, (WIDTH,), self.norm[0], self.norm[1], 1e-12).to(d)
        parts = [p.to(d).unbind(0) for p in (self.qkv, self.qkv_b, self.out, self.out_b)]
        rest = [p.to(d).unbind(0) for p in (self.up, self.up_b, self.down, self.down_b)]
        norms = self.norms.to(d).unbind(0)
        share = 1.0 / (bounds[1:-1] - bounds[:-2]).float().clamp(min=1)
        # Compiled for training only: without gradients it would be compiled once more.
        before, after = (self.before, self.after) if torch.is_grad_enabled() else (before_attention, after_attention)
        states = []
        for i in range(DEPTH + 1):
            total = torch.zeros(count + 1, WIDTH, device=x.device).index_add(0, text, x.float())
            states.append(total[:count] * share[:, None])
            if i == DEPTH:
                break
            q, k, v = before(x, parts[0][i], parts[1][i]).unbind(1)
            a = (
                varlen(q, k, v, bounds, longest)
                if self.attention == "varlen"
                else padded(q, k, v, place, text, bounds, longest)
            )
            n1w, n1b, n2w, n2b = norms[i].unbind(0)
            x = after(x, a, parts[2][i], parts[3][i], n1w, n1b, *(r[i] for r in rest), n2w, n2b)
        return torch.stack(states)

    def embedded(self, pooled):
        """The vectors (7, B, 384), not of unit length."""
        return torch.baddbmm(self.exit_b[:, None], functional.normalize(pooled, dim=-1), self.exit_w.mT)

    def forward(self, tokens, rows, total, longest):
        return self.embedded(self.pooled(*tokens.packed(rows, total), longest))


def released(weights="minilm", **how):
    """The released model, or another one of its shape; all exits are the identity."""
    student = Student(**how).read_bert(load_file(folder(f"{weights}.safetensors")))
    with torch.no_grad():
        student.exit_w.copy_(torch.eye(WIDTH).expand(DEPTH + 1, -1, -1))
    return student


@torch.inference_mode()
def states_of(student, tokens, rows, batch_tokens=131072):
    """Pooled states (7, N, 384) of `rows` (a numpy array), in its order, fp32."""
    device = tokens.flat.device
    lens = tokens.host_lens[rows]
    order = np.argsort(lens, kind="stable")
    out = torch.empty(DEPTH + 1, len(rows), WIDTH, device=device)
    at = 0
    while at < len(order):
        end = at + 1
        total = int(lens[order[at]])
        while end < len(order) and total + lens[order[end]] <= batch_tokens and (end - at) < 4096:
            total += int(lens[order[end]])
            end += 1
        chosen = order[at:end]
        on_device = torch.from_numpy(rows[chosen]).to(device)
        part = student.pooled(*tokens.packed(on_device, total), max(64, int(lens[chosen].max())))
        out[:, torch.from_numpy(chosen).to(device)] = part
        at = end
    return out
