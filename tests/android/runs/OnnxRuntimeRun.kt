import dev.edgex.model.ModelManifest
import dev.edgex.model.engine.EngineException
import dev.edgex.model.engine.LoadMode
import dev.edgex.model.engine.modelEngine
import dev.edgex.model.measure.BenchmarkRequest
import dev.edgex.model.measure.BenchmarkRun
import dev.edgex.model.measure.BenchmarkSettings
import dev.edgex.model.measure.DeviceInfo
import dev.edgex.model.measure.Report
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
