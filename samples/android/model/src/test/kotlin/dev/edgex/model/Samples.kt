package dev.edgex.model

import dev.edgex.model.engine.InferenceEngine
import dev.edgex.model.engine.LoadMode
import dev.edgex.model.engine.LoadTimes
import dev.edgex.model.engine.LoadedEngine
import dev.edgex.model.measure.DeviceState
import dev.edgex.model.measure.GoldenValues
import dev.edgex.model.measure.MemoryReading
import dev.edgex.model.measure.Platform
import dev.edgex.model.measure.PreparedModel
import dev.edgex.model.tensor.DType
import dev.edgex.model.tensor.TensorData

/** A model of one float input and one output of three scores, for the tests. */
object Samples {
    fun manifest(stateful: Boolean = false, dtype: String = "float32"): ModelManifest = ModelManifest.parse(text(stateful, dtype))

    fun text(stateful: Boolean = false, dtype: String = "float32"): String = """
        {"format": "edgex.android-model/1",
         "model": {"name": "tiny", "target": "xnnpack", "precision": "fp32", "digest": "d1", "source": "asset",
           "method": "forward", "weights": null, "file": "model.pte", "file_bytes": 10, "sha256": "${"a".repeat(64)}", "artifact_bytes": 20, "native_bytes": 10,
           "planned_arena_bytes": 64, "backends": ["XnnpackBackend"], "portable_operators": 1, "parameters": 9,
           "stateful": $stateful, "description": null},
         "versions": {"edgex": "0.1.0", "engine": "executorch", "exporter": "1.5.1", "library": "executorch-android",
           "aar": "1.5.1", "flavor": "xnnpack"},
         "tolerance": {"min_sqnr_db": 80.0, "atol": 0.0001, "rtol": 0.0001, "min_equal": 1.0},
         "quantized_tolerance": null,
         "inputs": [{"name": "x", "dtype": "$dtype", "shape": [{"name": "batch", "min": 1, "max": 8}, 3], "image": null}],
         "outputs": [{"name": "y", "dtype": "$dtype", "shape": [{"name": "batch", "min": 1, "max": 8}, 3],
           "activation": "logits", "image": null}],
         "labels": ["a", "b", "c"], "detection": null, "text": null, "note": null,
         "generation": null, "microphone": null, "provider": null, "state": [],
         "golden": [
           {"name": "example", "reference": "eager", "min_sqnr_db": null, "steps": [{"inputs": [{"file": "i", "shape": [2, 3]}], "outputs": [{"file": "o", "shape": [2, 3]}]}]},
           {"name": "row", "reference": "eager", "min_sqnr_db": null, "steps": [
             {"inputs": [{"file": "i", "shape": [2, 3]}], "outputs": [{"file": "o", "shape": [2, 3]}]},
             {"inputs": [{"file": "i", "shape": [2, 3]}], "outputs": [{"file": "o", "shape": [2, 3]}]}]}],
         "golden_left_out": 0}
    """

    fun tensor(vararg values: Double, shape: IntArray = intArrayOf(values.size), dtype: DType = DType.FLOAT32): TensorData =
        TensorData.allocate(dtype, shape).apply { values.forEachIndexed { at, value -> this[at] = value } }
}

/** Doubles its input, plus [error]; a model with state has room for two runs. Counts what is done to it. */
class FakePlatform(private val error: Double = 0.0, private val stateful: Boolean = false) : Platform {
    var loads = 0
    var closed = 0
    var runs = 0
    override val isDebuggable = false

    override fun prepareModel() = PreparedModel(copySeconds = 0.5, verifySeconds = 0.25)

    override fun loadLibrary() = 0.125

    override fun readGolden(step: GoldenStep): GoldenValues {
        val input = Samples.tensor(1.0, 2.0, 4.0, 3.0, 2.0, 1.0, shape = intArrayOf(2, 3))
        val output = Samples.tensor(2.0, 4.0, 8.0, 6.0, 4.0, 2.0, shape = intArrayOf(2, 3))
        return GoldenValues(listOf(input), listOf(output))
    }

    override fun readState() = DeviceState(thermalStatus = 0, values = mapOf("screen_on" to true))

    override fun readMemory() = MemoryReading(peakRssBytes = 1000, pssBytes = 900, nativeHeapBytes = 800)

    override fun registeredBackends() = listOf("XnnpackBackend")

    override fun writeTrace(engine: InferenceEngine, runId: String) = "not in this build"

    override fun load(threads: Int, loadMode: LoadMode): LoadedEngine {
        loads++
        return LoadedEngine(Engine(), LoadTimes(program = 0.01, method = 0.02))
    }

    private inner class Engine : InferenceEngine {
        private var inputs = emptyList<TensorData>()
        private var results = emptyList<TensorData>()
        private var own = 0

        override fun bind(inputs: List<TensorData>) {
            this.inputs = inputs
        }

        override fun run() {
            runs++
            own++
            check(!stateful || own <= LIMIT) { "the cache is full" }
            results = inputs.map { input ->
                TensorData.allocate(input.dtype, input.shape).apply { for (at in 0 until size) this[at] = input[at] * 2 + error }
            }
        }

        override fun outputs() = results

        override fun close() {
            closed++
        }
    }

    companion object {
        /** Runs that a model with state has room for. */
        const val LIMIT = 2
    }
}
