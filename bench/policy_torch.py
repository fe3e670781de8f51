"""The same work as `paddock-bench policy`, on PyTorch: sampling with a KV cache, one GRPO step.

Reads a Llama-shaped model folder (config.json, model.safetensors). For each line
`prompt+completion` of its input it makes one run and prints its seconds of sampling and of a
step as a JSON object.
"""

from __future__ import annotations

import argparse
import json
import struct
import sys
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """The f32 tensors of a safetensors file."""
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        numbers = np.frombuffer(data[8 + size + begin : 8 + size + end], dtype="<f4").copy()
        tensors[name] = torch.from_numpy(numbers).reshape(entry["shape"])
    return tensors


class Cache:
    """Keys and values of a batch, with room for a number of positions."""

    def __init__(self, config: dict, batch: int, room: int) -> None:
        shape = (batch, config["num_key_value_heads"], room, config["head_dim"])
        layers = config["num_hidden_layers"]
        self.keys = [torch.empty(shape) for _ in range(layers)]
        self.values = [torch.empty(shape) for _ in range(layers)]
        self.length = 0


class Decoder(nn.Module):
    """A Llama-shaped decoder; query, key, value and gate, up projections are fused."""

    def __init__(self, config: dict, tensors: dict[str, Tensor]) -> None:
        super().__init__()
        self.config = config
        self.heads = config["num_attention_heads"]
        self.key_heads = config["num_key_value_heads"]
        self.head = config["head_dim"]
        self.eps = config["rms_norm_eps"]
        self.embed = nn.Parameter(tensors["model.embed_tokens.weight"].clone())
        self.norm = nn.Parameter(tensors["model.norm.weight"].clone())
        self.blocks = nn.ModuleList()
        for layer in range(config["num_hidden_layers"]):

            def get(*names: str, layer: int = layer) -> nn.Parameter:
                parts = [tensors[f"model.layers.{layer}.{name}.weight"] for name in names]
                return nn.Parameter(torch.cat(parts))

            block = nn.Module()
            block.norm1 = get("input_layernorm")
            block.qkv = get("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
            block.out = get("self_attn.o_proj")
            block.norm2 = get("post_attention_layernorm")
            block.gate_up = get("mlp.gate_proj", "mlp.up_proj")
            block.down = get("mlp.down_proj")
            self.blocks.append(block)
        half = torch.arange(0, self.head, 2, dtype=torch.float64) / self.head
        angles = torch.outer(
            torch.arange(config["max_position_embeddings"], dtype=torch.float64),
            config["rope_theta"] ** -half,
        )
        self.register_buffer("cos", torch.cat([angles.cos(), angles.cos()], -1).float())
        self.register_buffer("sin", torch.cat([angles.sin(), angles.sin()], -1).float())

    def turn(self, x: Tensor, start: int) -> Tensor:
        """Rotary positions from `start` on, for x of shape (batch, heads, length, head)."""
        end = start + x.shape[2]
        low, high = x.chunk(2, -1)
        turned = torch.cat([-high, low], -1)
        return x * self.cos[start:end] + turned * self.sin[start:end]

    def attention(self, qkv: Tensor, layer: int, cache: Cache | None) -> Tensor:
        """Causal attention; with a cache, over what it holds too."""
        batch, length, _ = qkv.shape
        sizes = [self.heads * self.head, self.key_heads * self.head, self.key_heads * self.head]
        q, k, v = qkv.split(sizes, -1)
        q = q.view(batch, length, self.heads, self.head).transpose(1, 2)
        k = k.view(batch, length, self.key_heads, self.head).transpose(1, 2)
        v = v.view(batch, length, self.key_heads, self.head).transpose(1, 2)
        start = cache.length if cache else 0
        q, k = self.turn(q, start), self.turn(k, start)
        if cache:
            end = start + length
            cache.keys[layer][:, :, start:end] = k
            cache.values[layer][:, :, start:end] = v
            k, v = cache.keys[layer][:, :, :end], cache.values[layer][:, :, :end]
        mixed = F.scaled_dot_product_attention(
            q, k, v, is_causal=length > 1, enable_gqa=self.heads != self.key_heads
        )
        return mixed.transpose(1, 2).reshape(batch, length, -1)

    def forward(self, ids: Tensor, cache: Cache | None = None, last: int | None = None) -> Tensor:
        """Logits of all rows, or of the `last` ones."""
        width = (self.config["hidden_size"],)
        x = self.embed[ids]
        for layer, block in enumerate(self.blocks):
            normed = F.rms_norm(x, width, block.norm1, self.eps)
            x = x + self.attention(normed @ block.qkv.T, layer, cache) @ block.out.T
            normed = F.rms_norm(x, width, block.norm2, self.eps)
            gate, up = (normed @ block.gate_up.T).chunk(2, -1)
            x = x + (F.silu(gate) * up) @ block.down.T
        if cache:
            cache.length += ids.shape[1]
        if last is not None:
            x = x[:, -last:]
        return F.rms_norm(x, width, self.norm, self.eps) @ self.embed.T


@torch.inference_mode()
def sample(model: Decoder, prompts: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Prompts with `count` sampled tokens, and the log-probabilities of those."""
    cache = Cache(model.config, prompts.shape[0], prompts.shape[1] + count)
    ids, pending, logprobs = [prompts], prompts, []
    for _ in range(count):
        logits = model(pending, cache, last=1)[:, 0]
        scores = F.log_softmax(logits, -1)
        pending = torch.multinomial(scores.exp(), 1)
        logprobs.append(scores.gather(-1, pending))
        ids.append(pending)
    return torch.cat(ids, 1), torch.cat(logprobs, 1)


def target_logprobs(model: Decoder, ids: Tensor, count: int) -> Tensor:
    """Log-probabilities of the last `count` tokens."""
    logits = model(ids[:, :-1], last=count)
    return F.log_softmax(logits, -1).gather(-1, ids[:, -count:, None])[..., 0]


def step(
    model: Decoder, reference: Decoder, optimiser: torch.optim.Optimizer, ids: Tensor, count: int
) -> None:
    """One GRPO step: reference log-probs, loss, gradients, clipping, AdamW."""
    advantages = torch.arange(ids.shape[0], dtype=torch.float32)[:, None] % 3 - 1
    with torch.no_grad():
        ref = target_logprobs(reference, ids, count)
    logprobs = target_logprobs(model, ids, count)
    ratio = (logprobs - logprobs.detach()).exp()
    clipped = ratio.clamp(0.8, 1.2) * advantages
    d = ref - logprobs
    loss = -torch.min(ratio * advantages, clipped) + 0.001 * (d.exp() - d - 1)
    loss.mean(1).mean().backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimiser.step()
    optimiser.zero_grad()


def measure(
    tensors: dict[str, Tensor], config: dict, case: str, sequences: int
) -> dict[str, float]:
    """Seconds of one run of a case, on fresh weights."""
    prompt, count = map(int, case.split("+"))
    rows, columns = torch.arange(sequences)[:, None], torch.arange(prompt)[None]
    prompts = (rows * 31 + columns * 7) % 256
    model, reference = Decoder(config, tensors), Decoder(config, tensors)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.0)
    begin = time.perf_counter()
    ids, _ = sample(model, prompts, count)
    sampled = time.perf_counter() - begin
    ids = ids.clone()
    begin = time.perf_counter()
    step(model, reference, optimiser, ids, count)
    return {"sample": sampled, "step": time.perf_counter() - begin}


def main() -> None:
    """Makes the runs asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--sequences", type=int, default=256)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    config = json.loads((options.model / "config.json").read_text())
    tensors = read_safetensors(options.model / "model.safetensors")
    for case in sys.stdin:
        print(json.dumps(measure(tensors, config, case, options.sequences)), flush=True)


if __name__ == "__main__":
    main()
