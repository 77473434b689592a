package dev.edgex.model.engine

import ai.onnxruntime.OrtSession.SessionOptions

/** Qualcomm's HTP: QNN compiles the model for the device's own as it is loaded. What it does not take is an error, not slowness. */
internal fun SessionOptions.use(provider: Map<String, String>) {
    addQnn(provider + ("backend_path" to "libQnnHtp.so"))
    addConfigEntry("session.disable_cpu_ep_fallback", "1")
}
