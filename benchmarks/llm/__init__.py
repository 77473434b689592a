"""Language models beside llama.cpp."""
