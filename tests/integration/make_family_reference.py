#!/usr/bin/env python3
"""Writes data/family_reference.json: what transformers computes for a tiny model of each family.

Weights and tokens are those of tests/support/fixture_t0.h, so that the file holds results only:
for each family its config.json; logits of a row; losses and norms of steps of
torch.optim.AdamW; greedy continuations of prompts. Linear layers, attention and optimizer run in
float64; norms and rotary tables in float32, as transformers has them.

Needs a transformers that knows all families (4.51 or later) and its PyTorch:

  make_family_reference.py tests/integration/data/family_reference.json
"""

import json
import sys

import numpy as np
import torch
import transformers

VOCABULARY, HIDDEN, INNER, LAYERS, HEADS = 67, 32, 48, 2, 4
STEPS, ROW, LEARNING_RATE, MAX_NORM = 5, 16, 1e-3, 1.0
PROMPT_LENGTHS, NEW_TOKENS = (1, 4, 9, 17, 30), 64

LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
LINEAR_ROPE = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}

FAMILIES = {
    "llama": ("LlamaConfig", {}),
    "llama3_rope": ("LlamaConfig", {"rope_parameters": LLAMA3_ROPE}),
    "linear_rope": ("LlamaConfig", {"rope_parameters": LINEAR_ROPE}),
    "llama_biased": ("LlamaConfig", {"attention_bias": True}),
    "mistral": ("MistralConfig", {"head_dim": 12, "sliding_window": 256}),
    "qwen2": ("Qwen2Config", {}),
    "qwen2_tied": ("Qwen2Config", {"tie_word_embeddings": True}),
    "qwen3": ("Qwen3Config", {"head_dim": 12}),
    "qwen3_tied": (
        "Qwen3Config",
        {"head_dim": 16, "tie_word_embeddings": True, "attention_bias": True},
    ),
}


def mixed(count, stream):
    """The fixture's hash of 0 .. count - 1."""
    x = np.arange(count, dtype=np.uint64) * 0x9E3779B1 + stream * 0x85EBCA77 + 0x165667B1
    x &= 0xFFFFFFFF
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        x = ((x ^ (x >> np.uint64(shift))) * np.uint64(factor)) & np.uint64(0xFFFFFFFF)
    return x ^ (x >> np.uint64(16))


def tensor(name, shape):
    stream = 0x811C9DC5
    for byte in name.encode():
        stream = ((stream ^ byte) * 0x01000193) & 0xFFFFFFFF
    r = mixed(int(np.prod(shape)), stream) / 4294967296.0 - 0.5
    norm = len(shape) == 1 and not name.endswith(".bias")
    return torch.tensor((1 + 0.4 * r if norm else 0.5 * r).astype(np.float32)).reshape(shape)


def sequence(number, length):
    return (mixed(length, 1000 + number) % VOCABULARY).astype(np.int64).tolist()


def make_model(config):
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(tensor(name, tuple(parameter.shape)))
    return model.double().eval()


def train(config):
    model = make_model(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=0.0)
    losses, norms = [], []
    for step in range(STEPS):
        ids = torch.tensor([sequence(step, ROW)])
        logits = model(input_ids=ids, use_cache=False).logits[0]
        loss = torch.nn.functional.cross_entropy(logits[:-1].double(), ids[0, 1:])
        optimizer.zero_grad()
        loss.backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)))
        optimizer.step()
        losses.append(float(loss))
    return {"losses": losses, "norms": norms}


def reference(config_class, settings):
    config = getattr(transformers, config_class)(
        vocab_size=VOCABULARY,
        hidden_size=HIDDEN,
        intermediate_size=INNER,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=2,
        max_position_embeddings=256,
        rms_norm_eps=1e-5,
        bos_token_id=None,
        eos_token_id=None,
        dtype="float32",
        **settings,
    )
    model = make_model(config)
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([sequence(0, ROW)]), use_cache=False).logits[0]
        continuations = []
        for index, length in enumerate(PROMPT_LENGTHS):
            ids = torch.tensor([sequence(10 + index, length)])
            out = model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=NEW_TOKENS,
                do_sample=False,
                pad_token_id=0,
            )
            continuations.append(out[0, length:].tolist())
    parameters = sum(parameter.numel() for parameter in model.parameters())
    written = json.loads(config.to_json_string(use_diff=True))
    written["architectures"] = [type(model).__name__]
    return {
        "config": written,
        "parameters": parameters,
        "logits": [[round(value, 7) for value in row] for row in logits.tolist()],
        "continuations": continuations,
        **train(config),
    }


def main():
    families = {name: reference(*family) for name, family in FAMILIES.items()}
    options = {
        "row": ROW,
        "learning_rate": LEARNING_RATE,
        "max_grad_norm": MAX_NORM,
        "prompt_lengths": PROMPT_LENGTHS,
        "max_new_tokens": NEW_TOKENS,
    }
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump({"versions": versions, "options": options, "families": families}, file,
                  separators=(",", ":"))  # fmt: skip
        file.write("\n")


if __name__ == "__main__":
    main()
