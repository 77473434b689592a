package dev.edgex.sample.job

import dev.edgex.model.engine.EngineException
import dev.edgex.model.engine.EngineLoader
import dev.edgex.model.engine.InferenceEngine
import dev.edgex.model.engine.LoadTimes
import dev.edgex.model.measure.Benchmark
import dev.edgex.model.measure.DeviceState
import dev.edgex.model.measure.Measurement
import dev.edgex.model.measure.MemoryReading
import dev.edgex.model.measure.ProgressListener
import dev.edgex.model.measure.Stage
import dev.edgex.model.tensor.DType
import dev.edgex.model.tensor.TensorData

/** The model's file is not the one that was asked for. */
class DigestException(message: String) : Exception(message)

/** What a job needs of the device it runs on. */
interface JobPlatform : EngineLoader {
    /** SHA-256 of the model's file, computed now. */
    fun hashModel(): String

    /** Loads the native library; seconds that it took in this process. */
    fun loadLibrary(): Double

    fun readInput(file: String, dtype: DType, shape: IntArray): TensorData

    fun writeOutput(file: String, data: TensorData)

    fun readState(): DeviceState

    fun readMemory(): MemoryReading

    /** Asks the loaded model for its operator trace; null where it was written, else why there is none. */
    fun writeTrace(engine: InferenceEngine): String?
}

/** The first run of a process. Times are in seconds. */
class ColdStart(
    val verifySeconds: Double,
    val librarySeconds: Double,
    val load: LoadTimes,
    val firstSeconds: Double,
    val peakRssBytes: Long?,
)

/** What a job found; [outputs] are shapes, `[sequence][step][output]`, whose values were written to files. */
class JobResult(
    val modelSha256: String,
    val cold: ColdStart,
    val outputs: List<List<List<IntArray>>>,
    val measurement: Measurement?,
    val steps: Int,
    val before: DeviceState,
    val after: DeviceState,
    val memory: MemoryReading,
    val traceRefusal: String?,
)

/**
 * A job of `edgex --device adb`: load and first run, then samples, then memory and trace, then the outputs of every sequence.
 *
 * With [coldOnly] it ends after the first run.
 */
class JobRun(
    private val job: Job,
    private val platform: JobPlatform,
    private val coldOnly: Boolean = false,
    private val progress: ProgressListener = ProgressListener { _, _, _ -> },
    private val clock: () -> Long = System::nanoTime,
) {
    private lateinit var engine: InferenceEngine

    fun execute(): JobResult {
        progress.onProgress(Stage.LOAD, 0, 0)
        val started = clock()
        val digest = platform.hashModel()
        val verifySeconds = since(started)
        if (digest != job.modelSha256) {
            throw DigestException("the model on the device is ${digest.take(SHOWN)}, asked for is ${job.modelSha256.take(SHOWN)}")
        }
        val librarySeconds = platform.loadLibrary()
        val before = platform.readState()
        val loaded = platform.load(job.threads, job.loadMode)
        engine = loaded.engine
        try {
            val steps = job.sequences.first().indices.map { readInputs(0, it) }
            progress.onProgress(Stage.FIRST_RUN, 0, 0)
            engine.bind(steps.first())
            val firstStarted = clock()
            engine.run()
            val firstSeconds = since(firstStarted)
            val peak = platform.readMemory().peakRssBytes
            val cold = ColdStart(verifySeconds, librarySeconds, loaded.times, firstSeconds, peak)
            val measurement = if (coldOnly || job.runs == 0) null else measure(steps)
            val after = platform.readState()
            progress.onProgress(Stage.MEMORY, 0, 0)
            val memory = platform.readMemory()
            val refusal = if (job.wantsTrace && !coldOnly) platform.writeTrace(engine) else NOT_ASKED
            val outputs = if (coldOnly) emptyList() else replay()
            return JobResult(digest, cold, outputs, measurement, steps.size, before, after, memory, refusal)
        } finally {
            engine.close()
        }
    }

    private fun measure(steps: List<List<TensorData>>): Measurement {
        restart()
        if (steps.size == 1) engine.bind(steps.first())
        val benchmark = Benchmark(
            // Binding the next step's inputs is not the model's work: it happens before the clock starts.
            prepare = { step -> if (steps.size > 1 || job.isStateful) engine.bind(steps[step]) },
            call = { engine.run() },
            steps = steps.size,
            reset = { restart() },
            clock = clock,
            progress = progress,
        )
        return benchmark.measure(job.runs, job.warmup)
    }

    private fun replay(): List<List<List<IntArray>>> = job.sequences.mapIndexed { at, steps ->
        progress.onProgress(Stage.PARITY, at, job.sequences.size)
        restart()
        steps.indices.map { step ->
            engine.bind(readInputs(at, step))
            engine.run()
            val outputs = engine.outputs()
            check(outputs)
            outputs.forEachIndexed { place, data -> platform.writeOutput(Job.outputFile(at, step, place), data) }
            outputs.map { it.shape }
        }
    }

    private fun check(outputs: List<TensorData>) {
        val found = outputs.map { it.dtype }
        val wanted = job.outputs.map { it.dtype }
        if (found != wanted) {
            throw EngineException("the model gave outputs of ${found.joinToString { it.label }}, not ${wanted.joinToString { it.label }}")
        }
    }

    private fun readInputs(sequence: Int, step: Int): List<TensorData> = job.inputs.mapIndexed { place, input ->
        platform.readInput(Job.inputFile(sequence, step, place), input.dtype, job.sequences[sequence][step][place])
    }

    /** A model with state begins anew. */
    private fun restart() {
        if (!job.isStateful) return
        engine.close()
        engine = platform.load(job.threads, job.loadMode).engine
    }

    private fun since(started: Long) = (clock() - started) / NANOS

    private companion object {
        const val NANOS = 1e9
        const val SHOWN = 12
        const val NOT_ASKED = "it was not asked for"
    }
}
