"""A tokenizer directory made on the spot: byte-level BPE and a chat template."""

import json

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|pad|>"]
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
MARKED_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' }}"
    "{% if message['role'] == 'assistant' %}{% generation %}{{ message['content'] + '<|im_end|>' }}{% endgeneration %}"
    "{% else %}{{ message['content'] + '<|im_end|>' }}{% endif %}{{ '\n' }}{% endfor %}"
)
TEXT = [
    "the quick brown fox jumps over the lazy dog",
    "memory tiers hold what the card cannot",
    "a step is a program, compiled once",
    "user assistant system tokens and rows",
]


def write(directory, chat_template=CHAT_TEMPLATE, begin_token=None):
    """Fills `directory`, which must exist, and returns it."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        TEXT,
        trainers.BpeTrainer(
            vocab_size=400,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
            special_tokens=[AddedToken(token, special=True, normalized=False) for token in SPECIAL],
        ),
    )
    if begin_token:
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{begin_token} $A",
            special_tokens=[(begin_token, tokenizer.token_to_id(begin_token))],
        )
    tokenizer.save(str(directory / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|im_end|>",
        "pad_token": "<|pad|>",
        "model_max_length": 4096,
    }
    if chat_template:
        config["chat_template"] = chat_template
    (directory / "tokenizer_config.json").write_text(json.dumps(config))
    return directory
