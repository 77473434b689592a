package dev.edgex.model.engine

import ai.onnxruntime.OrtSession.SessionOptions

/** This library's ONNX Runtime has the CPU alone, which needs no word. */
internal fun SessionOptions.use(provider: Map<String, String>): Nothing =
    throw EngineException("the model asks for another processor than the CPU, which $this does not have: $provider")
