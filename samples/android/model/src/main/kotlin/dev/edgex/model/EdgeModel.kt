package dev.edgex.model

import android.content.Context
import dev.edgex.model.engine.InferenceEngine
import dev.edgex.model.measure.BenchmarkRequest
import dev.edgex.model.measure.BenchmarkResult
import dev.edgex.model.measure.BenchmarkRun
import dev.edgex.model.measure.BenchmarkSettings
import dev.edgex.model.measure.GoldenReplay
import dev.edgex.model.measure.ParityReport
import dev.edgex.model.measure.Platform
import dev.edgex.model.measure.ProgressListener
import dev.edgex.model.tensor.TensorData
import dev.edgex.model.text.BytePairs
import dev.edgex.model.text.GenerationFormat
import dev.edgex.model.text.WordPiece
import dev.edgex.model.text.tensorsOf
import java.io.Closeable

/** The outputs of one run, in the model's order, and how long the engine took. */
class ModelRun(val outputs: List<TensorData>, val seconds: Double)

/**
 * A model by the names of its tensors; the generated class beside this one has them as Kotlin's own types.
 *
 * Any thread may call: everything native happens on [ModelThread], one call after the other. The model is loaded by the first
 * call that needs it, and may be used again after [release], but not after [close].
 */
class EdgeModel(val manifest: ModelManifest, private val platform: Platform, private val threads: Int = 0) : Closeable {
    // Both on the model's thread only.
    private var engine: InferenceEngine? = null
    private var isClosed = false

    // Of a language model, the text whose keys and values it holds.
    private var text: Any? = null

    private val wordPiece by lazy {
        val format = requireNotNull(manifest.text) { "${manifest.model.name} has no tokenizer in this library" }
        WordPiece(format, readLines(format.vocabularyFile))
    }

    /** The tokenizer of a language model, null where the library does not have it. */
    internal val bytePairs: BytePairs? by lazy {
        generation.tokenizer?.let { BytePairs(it, readLines(it.vocabularyFile), readLines(it.mergesFile)) }
    }

    /** What the language model takes. */
    val generation: GenerationFormat get() = requireNotNull(manifest.generation) { "${manifest.model.name} is no language model" }

    fun input(name: String): InputInfo =
        requireNotNull(manifest.inputs.firstOrNull { it.spec.name == name }) { "the model has no input $name" }

    /** Loads the model now, rather than with the first run. */
    suspend fun load() = ModelThread.run { loaded() }.let {}

    /** Runs once. What a model keeps from run to run goes on from the run before. */
    suspend fun run(inputs: List<TensorData>): ModelRun = run(inputs, null)

    /** Runs once for a [text] that was begun, and fails where another call has used the model since. */
    internal suspend fun run(inputs: List<TensorData>, text: Any?): ModelRun {
        manifest.check(inputs)
        return ModelThread.run {
            val engine = loaded()
            check(text == null || text === this.text) { "another call has used ${manifest.model.name} since this text began" }
            this.text = text
            engine.bind(inputs)
            val started = System.nanoTime()
            engine.run()
            val seconds = (System.nanoTime() - started) / NANOS
            ModelRun(engine.outputs(), seconds)
        }
    }

    /** Begins a text of a language model's, which ends any other. One that counts its own position is loaded anew. */
    internal suspend fun beginText(text: Any) = ModelThread.run {
        if (manifest.inputs.size == 1) free()
        this.text = text
    }

    /** A text as the inputs of one run; reads the vocabulary when first called. */
    suspend fun tensorsOf(text: String): List<TensorData> = ModelThread.run { wordPiece.tensorsOf(text, manifest) }

    /** Forgets what the model kept from the runs before. */
    suspend fun reset() = ModelThread.run { if (manifest.model.isStateful) free() }

    /** Replays the golden data and holds this device's outputs to the tolerance that the model was proved with. */
    suspend fun verifyOnDevice(cancelled: () -> Boolean = { false }): ParityReport = ModelThread.run {
        val replay = GoldenReplay(manifest, platform::readGolden)
        replay.run(loaded(), reload = { free().let { loaded() } }, cancelled).also { if (manifest.model.isStateful) free() }
    }

    /** Measures load, first and steady latency on the golden data, and memory; see [BenchmarkRun]. */
    suspend fun measure(settings: BenchmarkSettings = BenchmarkSettings()): BenchmarkResult =
        measure(BenchmarkRequest("library", settings, modelSha256 = null), { _, _, _ -> }) { false }

    suspend fun measure(request: BenchmarkRequest, progress: ProgressListener, cancelled: () -> Boolean): BenchmarkResult =
        ModelThread.run {
            // Two loaded models would share one thread pool, which a new number of threads replaces.
            free()
            BenchmarkRun(manifest, platform, progress, cancelled).execute(request)
        }

    /** Gives the model's memory back until the next call that needs it. */
    suspend fun release() = ModelThread.run { free() }

    /** Gives the model's memory back, after the calls that were made before. */
    override fun close() = ModelThread.post {
        free()
        isClosed = true
    }

    private fun loaded(): InferenceEngine = engine ?: run {
        check(!isClosed) { "the model ${manifest.model.name} is closed" }
        platform.prepareModel()
        platform.loadLibrary()
        platform.load(threads, platform.loadModes.first()).engine.also { engine = it }
    }

    private fun free() {
        engine?.close()
        engine = null
        text = null
    }

    private fun readLines(file: String): List<String> = platform.readText(file).removeSuffix("\n").split('\n')

    companion object {
        /** Where models lie in the assets: a folder for each, with its `manifest.json`. */
        const val ASSETS = "edgex"
        private const val NANOS = 1e9

        /** The model in `assets/edgex/NAME`. Reads its description only; [threads] 0 leaves the number to the engine. */
        fun open(context: Context, name: String, threads: Int = 0): EdgeModel {
            val application = context.applicationContext
            val manifest = readManifest(application, name)
            return EdgeModel(manifest, AndroidPlatform(application, name, manifest), threads)
        }

        /** Fails with a message that names what is wrong with it. */
        fun readManifest(context: Context, name: String): ModelManifest =
            ModelManifest.parse(context.assets.open("$ASSETS/$name/manifest.json").bufferedReader().use { it.readText() })

        /** The models that this app holds. */
        fun names(context: Context): List<String> = context.assets.list(ASSETS).orEmpty().asList()
    }
}
