"""The three teachers as plain torch functions of token ids (B, L) without padding: texts of one length share a batch.

    python teachers.py nomic                 vectors of every text -> vec/nomic.npy (fp16, unit length)
    python teachers.py nomic --prefix task   with the prefix of the kind of each text -> vec/nomic.task.npy
    python teachers.py nomic-tuned           those of the teacher that tune.py made

They are small enough to be read at a glance, and need nothing but torch and safetensors on the GPU machine.
"""

from __future__ import annotations

import argparse
import os
import time

import numpy as np
import torch
from packed import Packed, device_of, half_of
from places import folder
from safetensors.torch import load_file
from torch.nn import functional

# Token ids of nomic's prefixes, in MiniLM's vocabulary ("search_query: " and so on).
PREFIXES = {
    "query": [3945, 1035, 23032, 1024],
    "document": [3945, 1035, 6254, 1024],
    "classification": [5579, 1024],
    "clustering": [9324, 2075, 1024],
}
# What each kind of text gets: sentence, query, passage.
SCHEMES = {
    "none": (None, None, None),
    "task": ("classification", "query", "document"),
    "search": ("query", "query", "document"),
    "sts": ("classification", "classification", "classification"),
    "cluster": ("clustering", "query", "document"),
}


def mean_of(x, mask=None):
    """The mean state of the tokens that `mask` (B, L) shows, or of all."""
    if mask is None:
        return x.float().mean(1)
    return (x.float() * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)


class Nomic:
    """nomic-embed-text-v1.5: post-norm, RoPE base 1000, SwiGLU, no biases."""

    width = 768

    def __init__(self, weights, device, dtype):
        w = {k: v.to(device, dtype) for k, v in weights.items()}
        self.table = w["token_embd.weight"] + w["token_types.weight"][0]
        self.norm = (w["token_embd_norm.weight"], w["token_embd_norm.bias"])
        self.layers = []
        for i in range(12):

            def g(name, i=i):
                return w[f"blk.{i}.{name}"]

            self.layers.append(
                (
                    g("attn_qkv.weight"),
                    g("attn_output.weight"),
                    g("attn_output_norm.weight"),
                    g("attn_output_norm.bias"),
                    torch.cat([g("ffn_gate.weight"), g("ffn_up.weight")]),
                    g("ffn_down.weight"),
                    g("layer_output_norm.weight"),
                    g("layer_output_norm.bias"),
                )
            )
        freq = 1.0 / (1000.0 ** (torch.arange(0, 64, 2, device=device).float() / 64))
        angle = torch.arange(600, device=device).float()[:, None] * freq
        self.cos, self.sin = (torch.cat([f(angle), f(angle)], -1).to(dtype) for f in (torch.cos, torch.sin))

    def __call__(self, ids, mask=None):
        b, length = ids.shape
        cos, sin = self.cos[:length], self.sin[:length]
        hidden = None if mask is None else mask[:, None, None, :]
        x = functional.layer_norm(self.table[ids], (768,), *self.norm, 1e-12)
        for qkv, out, n1w, n1b, gate_up, down, n2w, n2b in self.layers:
            both = functional.linear(x, qkv).view(b, length, 3, 12, 64).permute(2, 0, 3, 1, 4)
            qk = both[:2]
            turned = torch.cat([-qk[..., 32:], qk[..., :32]], -1)
            q, k = (qk * cos + turned * sin).unbind(0)
            a = functional.scaled_dot_product_attention(q, k, both[2], attn_mask=hidden)
            a = a.transpose(1, 2).reshape(b, length, 768)
            x = functional.layer_norm(x + functional.linear(a, out), (768,), n1w, n1b, 1e-12)
            gate, up = functional.linear(x, gate_up).chunk(2, -1)
            x = functional.layer_norm(x + functional.linear(functional.silu(gate) * up, down), (768,), n2w, n2b, 1e-12)
        return mean_of(x, mask)


class MPNet:
    """all-mpnet-base-v2: post-norm, one relative position bias for all layers."""

    width = 768

    def __init__(self, weights, device, dtype):
        w = {k: v.to(device, dtype) for k, v in weights.items()}
        self.table, self.places = w["embeddings.word_embeddings.weight"], w["embeddings.position_embeddings.weight"]
        self.norm = (w["embeddings.LayerNorm.weight"], w["embeddings.LayerNorm.bias"])
        self.layers = []
        for i in range(12):

            def g(name, i=i):
                return w[f"encoder.layer.{i}.{name}"]

            self.layers.append(
                (
                    torch.cat([g(f"attention.attn.{p}.weight") for p in "qkv"]),
                    torch.cat([g(f"attention.attn.{p}.bias") for p in "qkv"]),
                    g("attention.attn.o.weight"),
                    g("attention.attn.o.bias"),
                    g("attention.LayerNorm.weight"),
                    g("attention.LayerNorm.bias"),
                    g("intermediate.dense.weight"),
                    g("intermediate.dense.bias"),
                    g("output.dense.weight"),
                    g("output.dense.bias"),
                    g("output.LayerNorm.weight"),
                    g("output.LayerNorm.bias"),
                )
            )
        self.bias = self._bias(w["encoder.relative_attention_bias.weight"].float(), 520).to(dtype)

    @staticmethod
    def _bias(table, length):
        place = torch.arange(length, device=table.device)
        n = -(place[None, :] - place[:, None])  # as transformers: minus (memory - context)
        bucket = (n < 0).long() * 16
        n = n.abs()
        far = 8 + (torch.log(n.float().clamp(min=1) / 8) / np.log(128 / 8) * 8).long()
        bucket += torch.where(n < 8, n, far.clamp(max=15))
        return table[bucket].permute(2, 0, 1).contiguous()  # (heads, L, L)

    def __call__(self, ids, mask=None):
        ids = torch.where(ids == 101, 0, torch.where(ids == 102, 2, ids + 4))  # its vocabulary is MiniLM's, shifted
        b, length = ids.shape
        x = functional.layer_norm(self.table[ids] + self.places[2 : 2 + length], (768,), *self.norm, 1e-5)
        padded = -(-length // 8) * 8  # kernels want rows of the bias aligned
        bias = self.bias[:, :length, :padded].contiguous()[:, :, :length].unsqueeze(0).expand(b, -1, -1, -1)
        if mask is not None:
            bias = bias.masked_fill(~mask[:, None, None, :], -1e4)
        for qkv, qkvb, out, outb, n1w, n1b, up, upb, down, downb, n2w, n2b in self.layers:
            q, k, v = functional.linear(x, qkv, qkvb).view(b, length, 3, 12, 64).permute(2, 0, 3, 1, 4)
            a = functional.scaled_dot_product_attention(q, k, v, attn_mask=bias).transpose(1, 2).reshape(b, length, 768)
            x = functional.layer_norm(x + functional.linear(a, out, outb), (768,), n1w, n1b, 1e-5)
            x = functional.layer_norm(
                x + functional.linear(functional.gelu(functional.linear(x, up, upb)), down, downb),
                (768,),
                n2w,
                n2b,
                1e-5,
            )
        return mean_of(x, mask)


class MiniLM:
    """all-MiniLM-L6-v2 as released."""

    width = 384

    def __init__(self, weights, device, dtype):
        w = {k: v.to(device, dtype) for k, v in weights.items()}
        self.table = w["embeddings.word_embeddings.weight"] + w["embeddings.token_type_embeddings.weight"][0]
        self.places = w["embeddings.position_embeddings.weight"]
        self.norm = (w["embeddings.LayerNorm.weight"], w["embeddings.LayerNorm.bias"])
        self.layers = []
        for i in range(6):

            def g(name, i=i):
                return w[f"encoder.layer.{i}.{name}"]

            parts = ("query", "key", "value")
            self.layers.append(
                (
                    torch.cat([g(f"attention.self.{p}.weight") for p in parts]),
                    torch.cat([g(f"attention.self.{p}.bias") for p in parts]),
                    g("attention.output.dense.weight"),
                    g("attention.output.dense.bias"),
                    g("attention.output.LayerNorm.weight"),
                    g("attention.output.LayerNorm.bias"),
                    g("intermediate.dense.weight"),
                    g("intermediate.dense.bias"),
                    g("output.dense.weight"),
                    g("output.dense.bias"),
                    g("output.LayerNorm.weight"),
                    g("output.LayerNorm.bias"),
                )
            )

    def __call__(self, ids):
        b, length = ids.shape
        x = functional.layer_norm(self.table[ids] + self.places[:length], (384,), *self.norm, 1e-12)
        for qkv, qkvb, out, outb, n1w, n1b, up, upb, down, downb, n2w, n2b in self.layers:
            q, k, v = functional.linear(x, qkv, qkvb).view(b, length, 3, 12, 32).permute(2, 0, 3, 1, 4)
            a = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, length, 384)
            x = functional.layer_norm(x + functional.linear(a, out, outb), (384,), n1w, n1b, 1e-12)
            x = functional.layer_norm(
                x + functional.linear(functional.gelu(functional.linear(x, up, upb)), down, downb),
                (384,),
                n2w,
                n2b,
                1e-12,
            )
        return x.float().mean(1)


CLASSES = {"nomic": Nomic, "mpnet": MPNet, "minilm": MiniLM}


def class_of(name):
    """That of `nomic`, and of `nomic-tuned`."""
    return CLASSES[name.split("-")[0]]


def load_teacher(name, device):
    return class_of(name)(load_file(folder(f"{name}.safetensors")), device, half_of(device))


@torch.inference_mode()
def vectors_of(teacher, tokens: Packed, prefixes=(None, None, None), batch_tokens=65536, show="") -> torch.Tensor:
    """Unit-length vectors (N, width) of every text of `tokens`, fp16 on the GPU and fp32 on the CPU."""
    device = tokens.flat.device
    dtype = half_of(device)
    out = torch.empty(len(tokens), teacher.width, dtype=dtype, device=device)
    done, begun, shown = 0, time.time(), time.time()
    for kind in range(3):
        of_kind = np.flatnonzero(tokens.kind == kind)
        lengths = tokens.host_lens[of_kind]
        order = of_kind[np.argsort(lengths, kind="stable")]
        lengths = tokens.host_lens[order]
        before = torch.tensor(PREFIXES[prefixes[kind]] if prefixes[kind] else [], dtype=torch.long, device=device)
        at = 0
        while at < len(order):
            length = int(lengths[at])
            end = min(
                int(np.searchsorted(lengths, length, "right")), at + max(1, batch_tokens // (length + len(before)))
            )
            rows = torch.from_numpy(order[at:end]).to(device)
            ids = tokens.rows(rows, length)
            if len(before):  # after [CLS]; the last tokens of a text that would be too long stay: positions reach 512
                ids = torch.cat([ids[:, :1], before.expand(len(ids), -1), ids[:, 1:]], 1)
            out[rows] = functional.normalize(teacher(ids), dim=-1).to(dtype)
            done += end - at
            at = end
            if show and time.time() - shown > 5:
                shown = time.time()
                print(f"{show}: {done}/{len(tokens)} texts, {shown - begun:.0f} s", flush=True)
    if device.type == "cuda":
        torch.cuda.synchronize()
    bad = int((~torch.isfinite(out)).any(1).sum())
    print(f"{show}: all {len(tokens)} texts in {time.time() - begun:.1f} s; not finite: {bad}", flush=True)
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("teacher", help="nomic, mpnet, minilm, or one that tune.py made")
    parser.add_argument("--prefix", default="none", choices=SCHEMES)
    parser.add_argument("--batch-tokens", type=int, default=65536)
    options = parser.parse_args()
    device = device_of()
    tokens = Packed.train(device)
    name = options.teacher + ("" if options.prefix == "none" else f".{options.prefix}")
    os.makedirs(folder("vec"), exist_ok=True)
    vectors = vectors_of(
        load_teacher(options.teacher, device), tokens, SCHEMES[options.prefix], options.batch_tokens, name
    )
    path = folder("vec", f"{name}.npy")
    np.save(path + ".part.npy", vectors.half().cpu().numpy())
    os.replace(path + ".part.npy", path)
    print("saved", path, os.path.getsize(path) >> 20, "MiB", flush=True)


if __name__ == "__main__":
    main()
