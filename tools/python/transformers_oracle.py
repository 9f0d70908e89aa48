"""A model in transformers as the reference that tiertrain is compared with.

On the CPU, in float32 if not said otherwise. The loss of several rows is the token-weighted mean over all of them, and
the documents of a row do not see each other, as tiertrain has it.
"""

import math
import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # a model is a local directory, never a name
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import numpy as np
import torch
import transformers
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from training_rows import BadRow, IGNORED


def schedule_factor(kind, step, warmup, total):
    """What Trainer multiplies the learning rate with at optimizer step `step`, from 0."""
    if step < warmup and kind != "constant":
        return step / max(1, warmup)
    if kind == "linear":
        return max(0.0, (total - step) / max(1, total - warmup))
    if kind == "cosine":
        progress = (step - warmup) / max(1, total - warmup)
        return max(0.0, 0.5 * (1.0 + math.cos(math.pi * progress)))
    return 1.0


def at_least_float32(values):
    return values if values.dtype == torch.float64 else values.float()


def train_every_row(model):
    """Lets the padding token's embedding have its gradient.

    transformers gives nn.Embedding the config's pad_token_id, and PyTorch then leaves that
    row out of the embedding's gradient (though not out of a tied head's). In instruction
    models the token is often one that real text has, as <|im_end|> in SmolLM2.
    """
    model.get_input_embeddings().padding_idx = None


def clip_gradients(parameters, max_norm):
    """torch.nn.utils.clip_grad_norm_ with a norm summed in float64, which it returns.

    PyTorch 1.13 sums a tensor's squares in float32: for one of 28 million elements, an
    embedding, its norm was seen to be 2e-4 to 1.5e-3 too small.
    """
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    norm = math.sqrt(sum(float(g.double().square().sum()) for g in gradients))
    factor = max_norm / (norm + 1e-6)
    if factor < 1:
        for gradient in gradients:
            gradient.mul_(factor)
    return norm


class Oracle:
    def __init__(self, model_dir, threads=None, dtype=torch.float32):
        if threads:
            torch.set_num_threads(threads)
        self.version = transformers.__version__
        self.model = transformers.AutoModelForCausalLM.from_pretrained(
            model_dir, torch_dtype=dtype, attn_implementation="eager"
        )
        self.model.eval()
        train_every_row(self.model)
        self.parameters = sum(p.numel() for p in self.model.parameters())

    def _forward(self, row, model=None):
        """Logits [tokens, vocab] of one row."""
        model = model or self.model
        if row.input_ids.max() >= model.config.vocab_size:
            raise BadRow(
                f"token id {row.input_ids.max()}, but the model has {model.config.vocab_size} tokens"
            )
        documents = torch.repeat_interleave(
            torch.arange(len(row.document_lengths)), torch.tensor(row.document_lengths)
        )
        positions = torch.cat([torch.arange(length) for length in row.document_lengths])
        visible = (documents[:, None] == documents[None, :]).tril()
        dtype = next(model.parameters()).dtype
        mask = torch.zeros(visible.shape, dtype=dtype).masked_fill(~visible, torch.finfo(dtype).min)
        return model(
            input_ids=torch.from_numpy(row.input_ids)[None],
            attention_mask=mask[None, None],
            position_ids=positions[None],
            use_cache=False,
        ).logits[0]

    def _loss_sum(self, row, model=None):
        targets = torch.from_numpy(row.targets())
        return torch.nn.functional.cross_entropy(
            at_least_float32(self._forward(row, model)),
            targets,
            ignore_index=IGNORED,
            reduction="sum",
        )

    def logits(self, row):
        with torch.no_grad():
            return self._forward(row).numpy()

    def loss(self, rows):
        total, count = 0.0, 0
        with torch.no_grad():
            for row in rows:
                trained = int((row.targets() != IGNORED).sum())
                if trained:
                    total += float(self._loss_sum(row))
                    count += trained
        if count == 0:
            raise BadRow("no row has a trained token")
        return total / count

    def generate(self, prompt, max_new_tokens, tokenizer_dir):
        """Greedy text, without the prompt. (model.generate() does not load in Debian's PyTorch.)"""
        tokenizer = transformers.AutoTokenizer.from_pretrained(tokenizer_dir)
        if tokenizer.chat_template:
            ids = tokenizer.apply_chat_template(
                [{"role": "user", "content": prompt}],
                add_generation_prompt=True,
                return_tensors="pt",
            )
        else:
            ids = tokenizer(prompt, return_tensors="pt").input_ids
        end = self.model.config.eos_token_id
        ends = set(end if isinstance(end, list) else [end])
        new, cache = [], None
        with torch.no_grad():
            while len(new) < max_new_tokens:
                out = self.model(input_ids=ids, past_key_values=cache, use_cache=True)
                cache, best = out.past_key_values, int(out.logits[0, -1].argmax())
                if best in ends:
                    break
                new.append(best)
                ids = torch.tensor([[best]])
        return tokenizer.decode(new)

    def weight_difference(self, model_dir):
        """The largest absolute difference from the weights in `model_dir`, and where it is."""
        other = transformers.AutoModelForCausalLM.from_pretrained(
            model_dir, torch_dtype=torch.float32
        )
        ours, theirs = dict(self.model.named_parameters()), dict(other.named_parameters())
        return max((float((ours[name] - theirs[name]).abs().max()), name) for name in ours)

    def train(self, rows, options, bf16_attention=None):
        """Steps of AdamW over `rows` in order; returns what tiertrain's log has, a dict a step.

        With options.bf16 the model computes on weights rounded to bfloat16, gradients are summed
        in float32, and AdamW updates the float32 weights. `bf16_attention` takes eager's place.
        """
        parameters = dict(self.model.named_parameters())
        plain = (
            {name for name, p in parameters.items() if p.ndim < 2}
            if not options.decay_norms
            else set()
        )
        optimizer = torch.optim.AdamW(
            [
                {
                    "params": [p for name, p in parameters.items() if name not in plain],
                    "weight_decay": options.weight_decay,
                },
                {"params": [parameters[name] for name in sorted(plain)], "weight_decay": 0.0},
            ],
            lr=options.learning_rate,
            betas=(options.adam_beta1, options.adam_beta2),
            eps=options.adam_epsilon,
        )
        per_step = options.per_device_train_batch_size * options.gradient_accumulation_steps
        worker = Bfloat16Copy(self.model, bf16_attention) if options.bf16 else None
        steps = []
        for step in range(options.max_steps):
            batch = [rows[(step * per_step + i) % len(rows)] for i in range(per_step)]
            lr = options.learning_rate * schedule_factor(
                options.lr_scheduler_type, step, options.warmup_steps, options.max_steps
            )
            for group in optimizer.param_groups:
                group["lr"] = lr
            optimizer.zero_grad()
            loss, trained = self._gradients(batch, worker)
            norm = clip_gradients(self.model.parameters(), options.max_grad_norm or math.inf)
            optimizer.step()
            steps.append(
                {
                    "step": step + 1,
                    "loss": loss,
                    "grad_norm": norm,
                    "lr": lr,
                    "tokens": sum(len(row.input_ids) for row in batch),
                    "trained_tokens": trained,
                }
            )
            print(
                f"step {step + 1}/{options.max_steps} loss {loss:.6f} grad_norm {norm:.6f} lr {lr:.3g}",
                flush=True,
            )
        return steps

    def _gradients(self, batch, worker):
        """Leaves the batch's gradients in the model; its mean loss and trained tokens."""
        trained = sum(int((row.targets() != IGNORED).sum()) for row in batch)
        if trained == 0:
            raise BadRow("a step without a trained token")
        if worker:
            worker.refresh()
        total = 0.0
        for row in batch:
            loss = self._loss_sum(row, worker and worker.model) / trained
            loss.backward()
            total += float(loss)
            if worker:
                worker.move_gradients()
        return total, trained


def float32_attention(module, query, key, value, attention_mask, scaling, **_):
    """Attention that rounds its result only, as fused kernels do: what `eager` computes,
    in another rounding."""
    repeats = query.shape[1] // key.shape[1]
    key = key.float().repeat_interleave(repeats, 1)
    value = value.float().repeat_interleave(repeats, 1)
    scores = query.float() @ key.transpose(2, 3) * scaling
    weights = torch.softmax(scores + attention_mask.float(), -1)
    return (weights @ value).transpose(1, 2).contiguous().to(query.dtype), None


class Bfloat16Copy:
    """A bfloat16 copy of a float32 model, for forward and backward."""

    def __init__(self, master, attention=None):
        self._master = master
        self.model = transformers.AutoModelForCausalLM.from_config(
            master.config, torch_dtype=torch.bfloat16, attn_implementation="eager"
        )
        train_every_row(self.model)
        if attention is not None:
            ALL_ATTENTION_FUNCTIONS["other"] = attention
            self.model.config._attn_implementation = "other"

    def refresh(self):
        with torch.no_grad():
            for copy, master in zip(self.model.parameters(), self._master.parameters()):
                copy.copy_(master)

    def move_gradients(self):
        """Adds the copy's gradients to the master's, and clears them."""
        for copy, master in zip(self.model.parameters(), self._master.parameters()):
            gradient = copy.grad.float()
            master.grad = gradient if master.grad is None else master.grad + gradient
            copy.grad = None
