import dev.edgex.model.AssetTensor
import dev.edgex.model.GoldenStep
import dev.edgex.model.ModelManifest
import dev.edgex.model.engine.InferenceEngine
import dev.edgex.model.engine.LoadMode
import dev.edgex.model.engine.modelEngine
import dev.edgex.model.measure.DeviceState
import dev.edgex.model.measure.GoldenValues
import dev.edgex.model.measure.MemoryReading
import dev.edgex.model.measure.Platform
import dev.edgex.model.measure.PreparedModel
import dev.edgex.model.tensor.TensorData
import dev.edgex.model.tensor.TensorSpec
import java.io.File

/** The folder of a model's assets on a computer, in place of a phone. */
class Desktop(private val assets: File, private val manifest: ModelManifest) : Platform {
    override val isDebuggable = false
    override val loadModes get() = modelEngine.loadModes

    override fun prepareModel() = PreparedModel(copySeconds = null, verifySeconds = 0.0)

    override fun loadLibrary(): Double = modelEngine.loadLibrary().let { 0.0 }

    override fun load(threads: Int, loadMode: LoadMode) =
        modelEngine.load(manifest.program(File(assets, manifest.model.fileName)) { read(it.spec, it.values) }, threads, loadMode)

    override fun readText(file: String) = File(assets, file).readText()

    override fun readGolden(step: GoldenStep) = GoldenValues(
        manifest.inputs.zip(step.inputs).map { (input, tensor) -> read(input.spec, tensor) },
        manifest.outputs.zip(step.outputs).map { (output, tensor) -> read(output.spec, tensor) },
    )

    override fun readState() = DeviceState(thermalStatus = null, values = emptyMap())

    override fun readMemory() = MemoryReading(peakRssBytes = null, pssBytes = null, nativeHeapBytes = null)

    override fun registeredBackends() = modelEngine.registeredBackends()

    override fun writeTrace(engine: InferenceEngine, runId: String) = engine.writeTrace(File(assets, "trace"))

    private fun read(spec: TensorSpec, tensor: AssetTensor): TensorData =
        TensorData.fromBytes(spec.dtype, tensor.shape, File(assets, tensor.file).readBytes())
}
