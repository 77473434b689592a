package dev.edgex.model.measure

import dev.edgex.model.GoldenStep
import dev.edgex.model.ModelManifest
import dev.edgex.model.engine.EngineLoader
import dev.edgex.model.engine.InferenceEngine
import dev.edgex.model.engine.LoadMode
import dev.edgex.model.tensor.TensorData

/** The model's file made ready; [copySeconds] is null where it was there already. */
data class PreparedModel(val copySeconds: Double?, val verifySeconds: Double)

/** What a benchmark needs of the device it runs on. */
interface Platform : EngineLoader {
    /** Copies the model's file out of the app's assets where that was not done yet, and checks it. */
    fun prepareModel(): PreparedModel

    /** Loads the native library; seconds that it took in this process. */
    fun loadLibrary(): Double

    fun readGolden(step: GoldenStep): GoldenValues

    /** A text file beside the manifest. */
    fun readText(file: String): String = throw UnsupportedOperationException("no $file here")

    fun readState(): DeviceState

    fun readMemory(): MemoryReading

    fun registeredBackends(): List<String>

    /** The ways of loading that the engine has, the usual one first. */
    val loadModes: List<LoadMode> get() = LoadMode.entries

    /** Asks the loaded model for its operator trace; null where it was written, else why there is none. */
    fun writeTrace(engine: InferenceEngine, runId: String): String?

    val isDebuggable: Boolean
}

/**
 * The whole benchmark: copy, load, first run and steady latency apart, then memory, then the golden data.
 *
 * Memory comes last because reading it costs milliseconds, and the golden data after it because it allocates.
 */
class BenchmarkRun(
    private val manifest: ModelManifest,
    private val platform: Platform,
    private val progress: ProgressListener = ProgressListener { _, _, _ -> },
    private val cancelled: () -> Boolean = { false },
    private val clock: () -> Long = System::nanoTime,
) {
    private lateinit var engine: InferenceEngine

    fun execute(request: BenchmarkRequest): BenchmarkResult {
        val wanted = request.modelSha256
        require(wanted == null || wanted == manifest.model.sha256) {
            "this app holds the model ${manifest.model.sha256.take(12)}, asked for is ${wanted?.take(12)}"
        }
        val started = clock()
        progress.onProgress(Stage.COPY, 0, 0)
        val prepared = platform.prepareModel()
        progress.onProgress(Stage.LOAD, 0, 0)
        val librarySeconds = platform.loadLibrary()
        val before = platform.readState()
        val settings = request.settings
        val loaded = load(settings)
        engine = loaded.engine
        try {
            val steps = sequence().map { platform.readGolden(it).inputs }
            progress.onProgress(Stage.FIRST_RUN, 0, 0)
            engine.bind(steps.first())
            val firstStarted = clock()
            engine.run()
            val firstSeconds = (clock() - firstStarted) / NANOS
            if (manifest.model.isStateful) reload(settings)
            engine.bind(steps.first())
            val measurement = measure(settings, steps)
            val after = platform.readState()
            progress.onProgress(Stage.MEMORY, 0, 0)
            val memory = platform.readMemory()
            val refusal = platform.writeTrace(engine, request.runId)
            progress.onProgress(Stage.PARITY, 0, 0)
            val replay = GoldenReplay(manifest, platform::readGolden)
            val parity = replay.run(engine, { reload(settings) }, cancelled)
            return BenchmarkResult(
                runId = request.runId,
                settings = settings,
                loadMode = modeOf(settings),
                threadsInEffect = settings.threads.takeIf { it > 0 },
                shapes = manifest.inputs.zip(steps.first()).associate { (input, value) -> input.spec.name to value.shape },
                steps = steps.size,
                verifySeconds = prepared.verifySeconds,
                copySeconds = prepared.copySeconds,
                engineSeconds = librarySeconds,
                load = loaded.times,
                firstSeconds = firstSeconds,
                measurement = measurement,
                parity = parity,
                memory = memory,
                before = before,
                after = after,
                registeredBackends = platform.registeredBackends(),
                etdumpRefusal = refusal,
                wallSeconds = (clock() - started) / NANOS,
                isDebuggable = platform.isDebuggable,
            )
        } finally {
            engine.close()
        }
    }

    /** Binding the next step's inputs is not the model's work: it happens before the clock starts. */
    private fun measure(settings: BenchmarkSettings, steps: List<List<TensorData>>): Measurement = Benchmark(
        prepare = { step -> if (manifest.model.isStateful) engine.bind(steps[step]) },
        call = { engine.run() },
        steps = if (manifest.model.isStateful) steps.size else 1,
        reset = { if (manifest.model.isStateful) reload(settings) },
        clock = clock,
        progress = progress,
        cancelled = cancelled,
    ).measure(settings)

    /** The longest proved sequence for a model with state: it stays within the model's limits. Else the first example. */
    private fun sequence(): List<GoldenStep> =
        if (manifest.model.isStateful) manifest.golden.maxBy { it.steps.size }.steps else manifest.golden.first().steps.take(1)

    private fun reload(settings: BenchmarkSettings): InferenceEngine {
        engine.close()
        engine = load(settings).engine
        return engine
    }

    private fun load(settings: BenchmarkSettings) = platform.load(settings.threads, modeOf(settings))

    private fun modeOf(settings: BenchmarkSettings): LoadMode = settings.loadMode ?: platform.loadModes.first()

    private companion object {
        const val NANOS = 1e9
    }
}
