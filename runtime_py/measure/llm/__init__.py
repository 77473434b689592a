"""Language models in llama-bench's terms: tokens a second, of prompts and of generated text."""
