"""Turns a GGUF file of a Llama-family model into a Hugging Face directory, without PyTorch.

The result opens in transformers 4 and 5 and in tiertrain: config.json, model.safetensors and
the tokenizer. Quantized tensors are dequantized, then rounded once to the type asked for.
"""

import json
import os
import pathlib

import gguf
import ml_dtypes
import numpy as np
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

DTYPES = {"bfloat16": ml_dtypes.bfloat16, "float32": np.float32}

LAYER_TENSORS = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
OTHER_TENSORS = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}

# How GGUF's name of a pre-tokenizer splits text before byte-level BPE. "smollm" splits every
# digit off first; without that step white space before digits becomes other tokens.
PRE_TOKENIZERS = {
    "smollm": lambda: pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    ),
    "gpt-2": lambda: pre_tokenizers.ByteLevel(add_prefix_space=False),
}
CONTROL_TOKEN = 3  # tokenizer.ggml.token_type


class UnsupportedModel(Exception):
    """The GGUF file holds something that this conversion does not know."""


class Fields:
    """The key-value part of a GGUF file; a missing key is an error that names it."""

    def __init__(self, reader):
        self._fields = reader.fields

    def get(self, key, default=None):
        field = self._fields.get(key)
        return default if field is None else field.contents()

    def __getitem__(self, key):
        value = self.get(key)
        if value is None:
            raise UnsupportedModel(f"the GGUF file has no field {key}")
        return value


def shortest_float32(value):
    """The shortest decimal that means the same float32: 1e-05, not 9.999999747378752e-06."""
    return float(str(np.float32(value)))


def huggingface_name(name):
    stem, suffix = name.rsplit(".", 1)
    if suffix == "weight" and stem in OTHER_TENSORS:
        return f"{OTHER_TENSORS[stem]}.weight"
    parts = stem.split(".")
    if suffix == "weight" and len(parts) == 3 and parts[0] == "blk" and parts[2] in LAYER_TENSORS:
        return f"model.layers.{parts[1]}.{LAYER_TENSORS[parts[2]]}.weight"
    raise UnsupportedModel(f"tensor {name} has no place in a Llama model")


def unpermute(weight, heads):
    """GGUF stores rotary pairs side by side; Hugging Face stores the halves of a head apart."""
    rows, columns = weight.shape
    pairs = weight.reshape(heads, rows // heads // 2, 2, columns)
    return np.ascontiguousarray(pairs.swapaxes(1, 2).reshape(rows, columns))


def tensors_of(reader, fields, dtype):
    heads = {
        "attn_q": fields["llama.attention.head_count"],
        "attn_k": fields["llama.attention.head_count_kv"],
    }
    tensors = {}
    for tensor in reader.tensors:
        name = huggingface_name(tensor.name)
        weight = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        kind = tensor.name.split(".")[-2]
        if kind in heads:
            weight = unpermute(weight, heads[kind])
        tensors[name] = weight.astype(DTYPES[dtype])
    return tensors


def config_of(fields, tied, dtype):
    """config.json with the rope and dtype keys of transformers 4 and of 5.

    Each version silently takes its default where it finds only the other's keys.
    """
    theta = shortest_float32(fields["llama.rope.freq_base"])
    hidden = fields["llama.embedding_length"]
    heads = fields["llama.attention.head_count"]
    return {
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": fields["tokenizer.ggml.bos_token_id"],
        "dtype": dtype,
        "eos_token_id": fields["tokenizer.ggml.eos_token_id"],
        "head_dim": fields.get("llama.rope.dimension_count", hidden // heads),
        "hidden_act": "silu",
        "hidden_size": hidden,
        "initializer_range": 0.02,
        "intermediate_size": fields["llama.feed_forward_length"],
        "max_position_embeddings": fields["llama.context_length"],
        "mlp_bias": False,
        "model_type": "llama",
        "num_attention_heads": heads,
        "num_hidden_layers": fields["llama.block_count"],
        "num_key_value_heads": fields["llama.attention.head_count_kv"],
        "pad_token_id": fields.get("tokenizer.ggml.padding_token_id"),
        "pretraining_tp": 1,
        "rms_norm_eps": shortest_float32(fields["llama.attention.layer_norm_rms_epsilon"]),
        "rope_parameters": {"rope_theta": theta, "rope_type": "default"},
        "rope_scaling": None,
        "rope_theta": theta,
        "tie_word_embeddings": tied,
        "torch_dtype": dtype,
        "use_cache": True,
        "vocab_size": fields["llama.vocab_size"],
    }


def tokenizer_of(fields):
    if fields["tokenizer.ggml.model"] != "gpt2":
        raise UnsupportedModel(
            f"tokenizer.ggml.model is {fields['tokenizer.ggml.model']!r}, not 'gpt2'"
        )
    pre = fields["tokenizer.ggml.pre"]
    if pre not in PRE_TOKENIZERS:
        raise UnsupportedModel(f"tokenizer.ggml.pre is {pre!r}; known are {sorted(PRE_TOKENIZERS)}")
    tokens = fields["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = PRE_TOKENIZERS[pre]()
    tokenizer.decoder = decoders.ByteLevel()
    types = fields["tokenizer.ggml.token_type"]
    tokenizer.add_special_tokens(
        [
            AddedToken(token, special=True, normalized=False)
            for token, kind in zip(tokens, types)
            if kind == CONTROL_TOKEN
        ]
    )
    return tokenizer


def tokenizer_config_of(fields):
    tokens = fields["tokenizer.ggml.tokens"]
    special = {}
    for role, key in (("bos", "bos"), ("eos", "eos"), ("pad", "padding"), ("unk", "unknown")):
        token_id = fields.get(f"tokenizer.ggml.{key}_token_id")
        if token_id is not None:
            special[f"{role}_token"] = tokens[token_id]
    config = {
        "add_prefix_space": False,
        "added_tokens_decoder": {
            str(i): {
                "content": token,
                "lstrip": False,
                "normalized": False,
                "rstrip": False,
                "single_word": False,
                "special": True,
            }
            for i, (token, kind) in enumerate(zip(tokens, fields["tokenizer.ggml.token_type"]))
            if kind == CONTROL_TOKEN
        },
        "chat_template": fields.get("tokenizer.chat_template"),
        "clean_up_tokenization_spaces": False,
        "model_max_length": fields["llama.context_length"],
        # transformers 5 writes "TokenizersBackend" here, which transformers 4 does not know.
        "tokenizer_class": "PreTrainedTokenizerFast",
        **special,
    }
    return config, special


def write_json(path, value):
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def convert(gguf_file, output_dir, dtype):
    """Writes the Hugging Face form of `gguf_file` into the existing folder `output_dir`."""
    reader = gguf.GGUFReader(gguf_file)
    fields = Fields(reader)
    if fields["general.architecture"] != "llama":
        raise UnsupportedModel(
            f"general.architecture is {fields['general.architecture']!r}, not 'llama'"
        )
    output_dir = pathlib.Path(output_dir)

    tensors = tensors_of(reader, fields, dtype)
    weights = output_dir / "model.safetensors"
    save_file(tensors, weights, metadata={"format": "pt"})
    os.chmod(weights, 0o666 & ~_umask())  # the library makes it 0600

    write_json(
        output_dir / "config.json", config_of(fields, "lm_head.weight" not in tensors, dtype)
    )
    config, special = tokenizer_config_of(fields)
    tokenizer_of(fields).save(str(output_dir / "tokenizer.json"))
    write_json(output_dir / "tokenizer_config.json", config)
    write_json(output_dir / "special_tokens_map.json", special)
    write_json(
        output_dir / "generation_config.json",
        {
            key: value
            for key, value in (
                ("bos_token_id", fields.get("tokenizer.ggml.bos_token_id")),
                ("eos_token_id", fields.get("tokenizer.ggml.eos_token_id")),
                ("pad_token_id", fields.get("tokenizer.ggml.padding_token_id")),
            )
            if value is not None
        },
    )


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask
