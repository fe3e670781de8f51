"""Writes the vectors that the policy's update is compared with: `python torch_vectors.py`.

Everything is computed by PyTorch in double precision from the formulas of verl and TRL, written
here from their papers and documentation on padded batches, with PyTorch's own differentiation,
gradient clipping and AdamW. Needs torch and numpy. Three files in `vectors/`:

- `loss.json`: log-probabilities in, loss, KL and gradients of the log-probabilities out;
- `pipe.json`: a tiny model's weights and token sequences in, loss, KL, entropy and the gradient
  of every weight out;
- `update.json`: the same model after whole steps of several updates.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

torch.set_default_dtype(torch.float64)
FOLDER = Path(__file__).parent / "vectors"
MODES = ["seq-mean-token-mean", "token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm"]
CONFIG = {
    "vocab_size": 12,
    "hidden_size": 8,
    "intermediate_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 4,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
}


@dataclass(frozen=True)
class Settings:
    """A step's settings, under the names of the Rust type."""

    mode: str = MODES[0]
    kl_coefficient: float = 0.1
    clip_low: float = 0.2
    clip_high: float = 0.3
    max_new_tokens: int = 16
    mask_truncated: bool = False
    temperature: float = 1.0


@dataclass
class Trajectory:
    """A trajectory: tokens, which of them are trained on, its reward, how it ended."""

    ids: list[int]
    mask: list[bool]
    reward: float
    truncated: bool = False
    group: int = field(default=0)


def advantages(rewards: Tensor, scale: str = "group") -> Tensor:
    """TRL's and verl's group-normalised advantages; equal rewards give 0."""
    centred = rewards - rewards.mean()
    if scale == "none":
        return centred
    return centred / (rewards.std(unbiased=True) + 1e-6)


def trl_loss(loss: Tensor, mask: Tensor, mode: str, longest: int) -> Tensor | None:
    """TRL's aggregation: `loss_type` grpo, dapo and dr_grpo."""
    if mode == "seq-mean-token-mean":
        return ((loss * mask).sum(-1) / mask.sum(-1).clamp(min=1.0)).mean()
    if mode == "token-mean":
        return (loss * mask).sum() / mask.sum().clamp(min=1.0)
    if mode == "seq-mean-token-sum-norm":
        return (loss * mask).sum() / (loss.shape[0] * longest)
    return None


def verl_loss(loss: Tensor, mask: Tensor, mode: str, longest: int) -> Tensor:
    """verl's aggregation, where a sequence without trained tokens counts as one with loss 0."""
    sums = (loss * mask).sum(-1)
    match mode:
        case "token-mean":
            return sums.sum() / mask.sum().clamp(min=1.0)
        case "seq-mean-token-sum":
            return sums.mean()
        case "seq-mean-token-mean":
            return (sums / mask.sum(-1).clamp(min=1.0)).mean()
        case "seq-mean-token-sum-norm":
            return sums.sum() / longest / loss.shape[0]
    raise ValueError(mode)


def grpo(
    new: Tensor, old: Tensor, ref: Tensor | None, mask: Tensor, adv: Tensor, settings: Settings
) -> dict[str, Tensor]:
    """Loss of a padded batch (PPO's clipped surrogate, k3 KL), and what is reported beside it."""
    ratio = torch.exp(new - old)
    clipped = torch.clamp(ratio, 1 - settings.clip_low, 1 + settings.clip_high)
    surrogate = torch.min(ratio * adv[:, None], clipped * adv[:, None])
    k3 = torch.zeros_like(new)
    if ref is not None and settings.kl_coefficient != 0:
        d = ref - new
        k3 = torch.exp(d) - d - 1
    loss = -surrogate + settings.kl_coefficient * k3
    total = verl_loss(loss, mask, settings.mode, settings.max_new_tokens)
    other = trl_loss(loss, mask, settings.mode, settings.max_new_tokens)
    assert other is None or torch.isclose(total, other, rtol=1e-12)
    hit = (clipped * adv[:, None] < ratio * adv[:, None]).to(new.dtype)
    count = mask.sum().clamp(min=1.0)
    return {
        "loss": total,
        "kl": (k3 * mask).sum() / count,
        "clip_fraction": (hit * mask).sum() / count,
    }


# A Llama-shaped decoder over named tensors.


def weights(seed: int, like: dict[str, Tensor] | None = None, by: float = 0.0) -> dict[str, Tensor]:
    """Fresh weights, or those of another model moved a little; rounded, so that JSON is exact."""
    random = torch.Generator().manual_seed(seed)
    width, inner = CONFIG["hidden_size"], CONFIG["intermediate_size"]
    queries = CONFIG["num_attention_heads"] * CONFIG["head_dim"]
    keys = CONFIG["num_key_value_heads"] * CONFIG["head_dim"]
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (12, width)}
    for layer in range(CONFIG["num_hidden_layers"]):
        for name, shape in {
            "input_layernorm": (width,),
            "self_attn.q_proj": (queries, width),
            "self_attn.k_proj": (keys, width),
            "self_attn.v_proj": (keys, width),
            "self_attn.o_proj": (width, queries),
            "post_attention_layernorm": (width,),
            "mlp.gate_proj": (inner, width),
            "mlp.up_proj": (inner, width),
            "mlp.down_proj": (width, inner),
        }.items():
            shapes[f"model.layers.{layer}.{name}.weight"] = shape
    shapes["model.norm.weight"] = (width,)
    shapes["lm_head.weight"] = (12, width)
    made = {}
    for name, shape in shapes.items():
        noise = torch.randn(shape, generator=random)
        if like is not None:
            value = like[name] + by * noise
        else:
            value = 1 + 0.1 * noise if "norm" in name else 0.35 * noise
        made[name] = (value * 1e4).round() / 1e4
    return made


def rms_norm(x: Tensor, gain: Tensor) -> Tensor:
    """RMSNorm."""
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + CONFIG["rms_norm_eps"]) * gain


def rotate(x: Tensor) -> Tensor:
    """Rotary positions for (heads, length, head), Hugging Face's half-rotated layout."""
    _, length, head = x.shape
    angles = torch.outer(
        torch.arange(length).to(x.dtype),
        CONFIG["rope_theta"] ** (-torch.arange(0, head, 2).to(x.dtype) / head),
    )
    cos, sin = angles.cos().repeat(1, 2), angles.sin().repeat(1, 2)
    low, high = x.chunk(2, -1)
    return x * cos + torch.cat([-high, low], -1) * sin


def logits(w: dict[str, Tensor], ids: Tensor) -> Tensor:
    """Logits of every position of one sequence."""
    head, group = CONFIG["head_dim"], CONFIG["num_attention_heads"] // CONFIG["num_key_value_heads"]
    length = len(ids)
    hidden = torch.full((length, length), float("-inf")).triu(1)
    x = w["model.embed_tokens.weight"][ids]
    for layer in range(CONFIG["num_hidden_layers"]):
        part = {
            name: w[f"model.layers.{layer}.{name}.weight"]
            for name in [
                "input_layernorm",
                "self_attn.q_proj",
                "self_attn.k_proj",
                "self_attn.v_proj",
                "self_attn.o_proj",
                "post_attention_layernorm",
                "mlp.gate_proj",
                "mlp.up_proj",
                "mlp.down_proj",
            ]
        }
        h = rms_norm(x, part["input_layernorm"])

        def heads(name: str, h: Tensor = h, part: dict[str, Tensor] = part) -> Tensor:
            return (h @ part[name].T).view(length, -1, head).transpose(0, 1)

        q = rotate(heads("self_attn.q_proj"))
        k = rotate(heads("self_attn.k_proj")).repeat_interleave(group, 0)
        v = heads("self_attn.v_proj").repeat_interleave(group, 0)
        scores = q @ k.transpose(1, 2) / head**0.5 + hidden
        mixed = (scores.softmax(-1) @ v).transpose(0, 1).reshape(length, -1)
        x = x + mixed @ part["self_attn.o_proj"].T
        h = rms_norm(x, part["post_attention_layernorm"])
        gated = F.silu(h @ part["mlp.gate_proj"].T) * (h @ part["mlp.up_proj"].T)
        x = x + gated @ part["mlp.down_proj"].T
    return rms_norm(x, w["model.norm.weight"]) @ w["lm_head.weight"].T


def target_logprobs(
    w: dict[str, Tensor], batch: list[Trajectory], temperature: float
) -> tuple[Tensor, Tensor]:
    """Padded log-probabilities of every token but the first, and the entropies beside them."""
    longest = max(len(t.ids) for t in batch)
    rows, entropies = [], []
    for t in batch:
        ids = torch.tensor(t.ids)
        scores = (logits(w, ids)[:-1] / temperature).log_softmax(-1)
        pad = (0, longest - len(t.ids))
        rows.append(F.pad(scores.gather(-1, ids[1:, None])[:, 0], pad))
        entropies.append(F.pad(-(scores.exp() * scores).sum(-1), pad))
    return torch.stack(rows), torch.stack(entropies)


def padded_mask(batch: list[Trajectory], settings: Settings) -> Tensor:
    """1 for each trained token, without the first position."""
    longest = max(len(t.ids) for t in batch)
    rows = []
    for t in batch:
        left_out = settings.mask_truncated and t.truncated
        mask = [0.0 if left_out else float(m) for m in t.mask[1:]]
        rows.append(mask + [0.0] * (longest - len(t.ids)))
    return torch.tensor(rows)


def batch_advantages(batch: list[Trajectory]) -> Tensor:
    """Each trajectory's advantage within its group."""
    result = torch.zeros(len(batch))
    for group in {t.group for t in batch}:
        members = [i for i, t in enumerate(batch) if t.group == group]
        result[members] = advantages(torch.tensor([batch[i].reward for i in members]))
    return result


def numbers(tensor: Tensor) -> list[float]:
    """The numbers of a tensor to seven digits."""
    return [float(f"{x:.7g}") for x in tensor.flatten().tolist()]


def write(name: str, value: object) -> None:
    """Writes one file of vectors."""
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / name).write_text(json.dumps(value, separators=(",", ":")) + "\n")


def described(t: Trajectory) -> dict:
    """A trajectory as the tests read it; the mask as text, `1` for a trained token."""
    mask = "".join("1" if m else "0" for m in t.mask)
    fields = {"ids": t.ids, "mask": mask, "reward": t.reward}
    return fields | {"truncated": t.truncated, "group": t.group}


def batches() -> dict[str, list[Trajectory]]:
    """The mask cases."""
    random = torch.Generator().manual_seed(3)

    def trajectory(mask: str, reward: float, group: int, truncated: bool = False) -> Trajectory:
        ids = torch.randint(0, 12, (len(mask),), generator=random).tolist()
        return Trajectory(ids, [m == "1" for m in mask], reward, truncated, group)

    return {
        # A prompt, then sampled tokens.
        "single turn": [
            trajectory("000111", 1.0, 0),
            trajectory("00011111", 0.0, 0),
            trajectory("0001", 0.5, 0),
            trajectory("0011", 1.0, 1),
            trajectory("00111111", 0.25, 1),
        ],
        # What a tool answered stands between two sampled turns.
        "tool results": [
            trajectory("00111000011", 1.0, 0),
            trajectory("001100000111", 0.0, 0),
            trajectory("0011", 0.0, 0),
        ],
        # The first turn was sampled but dropped later: it is context only.
        "dropped turns": [
            trajectory("000000001111", 0.0, 0),
            trajectory("0001111", 1.0, 0),
            trajectory("000000000", 0.5, 0),
        ],
        "truncated": [
            trajectory("000111111111", 0.0, 0, truncated=True),
            trajectory("000111", 1.0, 0),
            trajectory("00011", 0.5, 0),
        ],
        # The second group's rewards are all equal.
        "no spread": [
            trajectory("0001111", 1.0, 0),
            trajectory("000111", 0.0, 0),
            trajectory("00111", 0.3, 1),
            trajectory("0011", 0.3, 1),
            trajectory("001111", 0.3, 1),
        ],
    }


def loss_vectors() -> None:
    """`loss.json`."""
    random = torch.Generator().manual_seed(5)
    lengths = [5, 1, 0, 3]
    mask = torch.tensor([[1.0] * n + [0.0] * (5 - n) for n in lengths])
    draw = lambda by: torch.randn(4, 5, generator=random) * by
    # Single precision is what the policy keeps them in.
    old = (-1.5 + draw(0.5)).float().double()
    new = (old + draw(0.4)).float().double()
    ref = (old + draw(0.3)).float().double()
    rewards = torch.tensor([0.3, 1.0, 0.0, 0.55])
    adv = advantages(rewards)
    cases = []
    for mode in MODES:
        for kl in [0.0, 0.04]:
            settings = Settings(mode=mode, kl_coefficient=kl)
            leaf = new.clone().requires_grad_()
            out = grpo(leaf, old, ref, mask, adv, settings)
            out["loss"].backward()
            rows = [row[:n] for row, n in zip(leaf.grad, lengths, strict=True)]
            cases.append(
                {"mode": mode, "kl_coefficient": kl}
                | {name: value.item() for name, value in out.items()}
                | {"gradient": [numbers(row) for row in rows]}
            )
    trim = lambda t: [numbers(row[:n]) for row, n in zip(t, lengths, strict=True)]
    groups = [[0.0, 1.0, 1.0, 0.0], [0.1] * 7, [0.3, 1.0, 0.0, 0.55], [2.0, -1.0]]
    write(
        "loss.json",
        {
            "clip_low": 0.2,
            "clip_high": 0.3,
            "max_new_tokens": 16,
            "rewards": rewards.tolist(),
            "logprobs": trim(new),
            "old": trim(old),
            "reference": trim(ref),
            "cases": cases,
            "advantages": [
                {
                    "rewards": group,
                    "group": numbers(spread_or_zero(group, "group")),
                    "none": numbers(spread_or_zero(group, "none")),
                }
                for group in groups
            ],
        },
    )


def spread_or_zero(group: list[float], scale: str) -> Tensor:
    """Advantages, with the rounding of equal rewards' mean taken out."""
    rewards = torch.tensor(group)
    same = bool((rewards == rewards[0]).all())
    return torch.zeros_like(rewards) if same else advantages(rewards, scale)


def pipe_vectors() -> None:
    """`pipe.json`."""
    theta = weights(1)
    old, ref = weights(2, theta, 0.05), weights(3, theta, 0.08)
    cases = []
    for name, batch in batches().items():
        variants = [Settings(mode=mode) for mode in MODES]
        if name == "truncated":
            variants += [replace(s, mask_truncated=True) for s in variants]
        if name == "single turn":
            variants += [Settings(temperature=0.7), Settings(kl_coefficient=0.0)]
        for settings in variants:
            leaves = {name: t.clone().requires_grad_() for name, t in theta.items()}
            new, entropy = target_logprobs(leaves, batch, settings.temperature)
            with torch.no_grad():
                before, _ = target_logprobs(old, batch, settings.temperature)
                reference, _ = target_logprobs(ref, batch, settings.temperature)
            mask = padded_mask(batch, settings)
            adv = batch_advantages(batch)
            adv = torch.where(adv.abs() < 1e-9, torch.zeros_like(adv), adv)
            out = grpo(new, before, reference, mask, adv, settings)
            out["loss"].backward()
            entropy = (entropy * mask).sum() / mask.sum().clamp(min=1.0)
            gradient = torch.cat([t.grad.flatten() for t in leaves.values()])
            cases.append(
                {"batch": name, "settings": vars(settings)}
                | {name: value.item() for name, value in out.items()}
                | {"entropy": entropy.item(), "tokens": int(mask.sum())}
                | {"gradient": [float(f"{x:.5g}") for x in gradient.tolist()]}
            )
    write(
        "pipe.json",
        {
            "config": CONFIG,
            "weights": [numbers(t) for t in theta.values()],
            "old": [numbers(t) for t in old.values()],
            "reference": [numbers(t) for t in ref.values()],
            "batches": {name: [described(t) for t in batch] for name, batch in batches().items()},
            "cases": cases,
        },
    )


def update_vectors() -> None:
    """`update.json`: two steps of three updates each, with a warm-up."""
    lr, warmup, settings = 0.02, 4, Settings(kl_coefficient=0.2, clip_low=0.05, clip_high=0.05)
    theta = {name: t.clone().requires_grad_() for name, t in weights(1).items()}
    ref = weights(1)
    optimiser = torch.optim.AdamW(
        theta.values(), lr=lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0
    )
    steps = []
    for step, name in [(1, "tool results"), (2, "single turn")]:
        batch = batches()[name]
        for group in optimiser.param_groups:
            group["lr"] = lr * min(1.0, step / warmup)
        mask, adv = padded_mask(batch, settings), batch_advantages(batch)
        with torch.no_grad():
            before, _ = target_logprobs(theta, batch, 1.0)
            reference, _ = target_logprobs(ref, batch, 1.0)
        reports = []
        for _ in range(3):
            optimiser.zero_grad()
            new, _ = target_logprobs(theta, batch, 1.0)
            out = grpo(new, before, reference, mask, adv, settings)
            out["loss"].backward()
            norm = torch.nn.utils.clip_grad_norm_(theta.values(), 1.0)
            optimiser.step()
            reports.append({k: v.item() for k, v in out.items()} | {"grad_norm": norm.item()})
        mean = {k: sum(r[k] for r in reports) / len(reports) for k in reports[0]}
        steps.append({"step": step, "batch": name, "lr": lr * step / warmup} | mean)
    write(
        "update.json",
        {
            "lr": lr,
            "warmup": warmup,
            "iterations": 3,
            "settings": vars(settings),
            "steps": steps,
            "weights": [numbers(t.detach()) for t in theta.values()],
        },
    )


if __name__ == "__main__":
    loss_vectors()
    pipe_vectors()
    update_vectors()
