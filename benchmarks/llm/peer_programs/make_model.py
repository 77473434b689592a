"""Run by a peer's own Python: a decoder of a shape in transformers' format, with random weights and a tokenizer.

make_model.py SHAPE-AS-JSON FOLDER
"""

import json
import sys

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

shape, folder = json.loads(sys.argv[1]), sys.argv[2]
sizes = {
    "num_hidden_layers": shape["layers"],
    "hidden_size": shape["width"],
    "intermediate_size": shape["feed_forward"],
    "num_attention_heads": shape["heads"],
    "num_key_value_heads": shape["key_heads"],
    "vocab_size": shape["vocabulary"],
    "tie_word_embeddings": True,
    "max_position_embeddings": 2048,
    "bos_token_id": 0,
    "eos_token_id": 0,
}
torch.manual_seed(0)
model = Qwen2ForCausalLM(Qwen2Config(**sizes)) if shape["biased"] else LlamaForCausalLM(LlamaConfig(**sizes))
model.eval().save_pretrained(folder)
# Both peers ask for a tokenizer when they convert; the tests are of ids alone.
words = Tokenizer(WordLevel({f"t{number}": number for number in range(shape["vocabulary"])}, unk_token="t0"))
PreTrainedTokenizerFast(tokenizer_object=words, eos_token="t0", bos_token="t0", unk_token="t0").save_pretrained(folder)
