import dev.edgex.model.GoldenStep
import dev.edgex.model.AssetTensor
import dev.edgex.model.ModelManifest
import dev.edgex.model.engine.EngineException
import dev.edgex.model.engine.InferenceEngine
import dev.edgex.model.engine.LoadMode
import dev.edgex.model.engine.modelEngine
import dev.edgex.model.measure.BenchmarkRequest
import dev.edgex.model.measure.BenchmarkRun
import dev.edgex.model.measure.BenchmarkSettings
import dev.edgex.model.measure.DeviceInfo
import dev.edgex.model.measure.DeviceState
import dev.edgex.model.measure.GoldenValues
import dev.edgex.model.measure.MemoryReading
import dev.edgex.model.measure.Platform
import dev.edgex.model.measure.PreparedModel
import dev.edgex.model.measure.Report
import dev.edgex.model.tensor.TensorData
import dev.edgex.model.tensor.TensorSpec
import dev.edgex.model.writeJson
import java.io.File

/** The library of a generated app on the desktop build of its engine: replays the golden data, measures, writes the report. */
fun main(arguments: Array<String>) {
    val (assets, report) = arguments.map(::File)
    val manifest = ModelManifest.parse(File(assets, "manifest.json").readText())
    val platform = Desktop(assets, manifest)
    platform.loadLibrary()
    for (mode in LoadMode.entries - modelEngine.loadModes) {
        try {
            platform.load(1, mode).engine.close()
            error("$mode was not refused")
        } catch (expected: EngineException) {
            check(mode.label in expected.message!!) { expected.message!! }
        }
    }
    val request = BenchmarkRequest("check", BenchmarkSettings(runs = 40, warmup = 3, threads = 1), manifest.model.sha256)
    val result = BenchmarkRun(manifest, platform).execute(request)
    check(result.parity.passed) { result.parity.results.filter { it.comparison.verdict.name == "FAIL" }.joinToString("\n") }
    report.writeText(writeJson(Report.toJson(manifest, DESKTOP, result)))
    println("${manifest.golden.size} cases, SQNR of at least ${result.parity.minSqnrDb} dB, on ${result.registeredBackends}")
}

private val DESKTOP = DeviceInfo(
    model = "desktop", soc = null, abi = "x86_64", cpuFeatures = null, cores = 1, memoryBytes = null, androidApi = 0,
    androidRelease = "none", kernel = "none", governor = null, frequencyHz = null, isEmulator = false, details = emptyMap(),
)

private class Desktop(private val assets: File, private val manifest: ModelManifest) : Platform {
    override val isDebuggable = false
    override val loadModes get() = modelEngine.loadModes

    override fun prepareModel() = PreparedModel(copySeconds = null, verifySeconds = 0.0)

    override fun loadLibrary(): Double = modelEngine.loadLibrary().let { 0.0 }

    override fun load(threads: Int, loadMode: LoadMode) = modelEngine.load(File(assets, manifest.model.fileName), threads, loadMode)

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
