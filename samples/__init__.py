"""Sample models, a file each: `edgex export samples/digits.py -t xnnpack`, or `edgex.samples.digits` from Python.

```
digits             a convnet trained on real scans of handwritten digits; the one that `make demo` exports
image_classifier   MobileNetV2 style, uint8 image in, preprocessing inside the graph
sentence_encoder   MiniLM: a sentence's tokens in, its embedding out; two dynamic dimensions
keyword_spotter    a GRU over audio features
decoder            a transformer decoder that keeps its own key-value cache between runs
vocoder            weight-normalised convolutions, mel spectrogram in, waveform out
```
"""
