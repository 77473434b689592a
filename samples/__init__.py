"""Sample models, a file each: `edgex export samples/digits.py -t xnnpack`, or `edgex.samples.digits` from Python.

```
digits             a convnet trained on real scans of handwritten digits; `make demo` exports it
image_classifier   MobileNetV2 style, uint8 image in, preprocessing inside the graph
photo_classifier   half of a ResNet-18, 2.8 million random weights; `make demo` times it
sentence_encoder   MiniLM: a sentence's tokens in, its embedding out; two dynamic dimensions
keyword_spotter    a GRU over audio features
small_language_model  speaks like Python's help, with a tokenizer of its own; `make demo-llm` exports it
decoder            a transformer decoder that keeps its own key-value cache between runs
vocoder            weight-normalised convolutions, mel spectrogram in, waveform out
```
"""
