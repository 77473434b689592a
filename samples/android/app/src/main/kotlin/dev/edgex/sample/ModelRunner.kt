package dev.edgex.sample

import dev.edgex.sample.core.AppManifest
import dev.edgex.sample.core.Comparison
import dev.edgex.sample.core.GoldenReplay
import dev.edgex.sample.core.InferenceEngine
import dev.edgex.sample.core.InputInfo
import dev.edgex.sample.core.LoadMode
import dev.edgex.sample.core.Parity
import dev.edgex.sample.core.ParityReport
import dev.edgex.sample.core.Picture
import dev.edgex.sample.core.TensorData
import dev.edgex.sample.core.TensorException
import java.util.concurrent.CopyOnWriteArrayList
import java.util.concurrent.ExecutorService

/** Where the values of one input come from. */
sealed interface InputChoice {
    data object Golden : InputChoice

    data object Zeros : InputChoice

    data object Ones : InputChoice

    data class Random(val seed: Long) : InputChoice

    data class Typed(val text: String) : InputChoice

    data class Photo(val picture: Picture) : InputChoice
}

/** One run; [comparisons] are there where all inputs were the golden ones. */
class RunResult(val outputs: List<TensorData>, val seconds: Double, val comparisons: List<Comparison>?)

/** What the Run screen shows. */
data class RunState(
    val isBusy: Boolean = false,
    val parity: ParityReport? = null,
    val result: RunResult? = null,
    val error: String? = null,
)

/** Holds the loaded model and the chosen inputs, and runs on the worker thread whatever the screens ask for. */
class ModelRunner(
    private val manifest: AppManifest,
    private val platform: AndroidPlatform,
    private val worker: ExecutorService,
) {
    val state = Watched(RunState())
    val choices: MutableList<InputChoice> = CopyOnWriteArrayList(manifest.inputs.map { InputChoice.Golden })

    /** Sizes of dynamic dimensions by name; at first those of the example. */
    val sizes: MutableMap<String, Int> = exampleSizes().toMutableMap()

    private var engine: InferenceEngine? = null

    /** Replays the golden data, once. */
    fun proveOnce() {
        if (state.value.parity == null && state.value.error == null && !state.value.isBusy) prove()
    }

    fun prove() = submit {
        val replay = GoldenReplay(manifest, platform::readGolden)
        val parity = replay.run(loaded(), ::reload)
        state.value.copy(parity = parity)
    }

    /** Runs once on the chosen inputs. A model with state begins anew, so that equal inputs give equal outputs. */
    fun run() {
        val sizes = sizes.toMap()
        submit { runOnce(sizes) }
    }

    /** Reads a picture, which may take a while, makes it the input at this place, and runs. */
    fun runOnPicture(at: Int, read: () -> Picture) {
        val sizes = sizes.toMap()
        submit {
            choices[at] = InputChoice.Photo(read())
            runOnce(sizes)
        }
    }

    private fun runOnce(sizes: Map<String, Int>): RunState {
        val chosen = choices.toList()
        val golden = platform.readGolden(manifest.golden.first().steps.first())
        val inputs = manifest.inputs.mapIndexed { at, input -> make(input, chosen[at], sizes, golden.inputs[at]) }
        val engine = if (manifest.model.isStateful) reload() else loaded()
        engine.bind(inputs)
        val started = System.nanoTime()
        engine.run()
        val seconds = (System.nanoTime() - started) / 1e9
        val outputs = engine.outputs()
        val comparisons = if (chosen.all { it == InputChoice.Golden }) {
            golden.outputs.zip(outputs) { reference, actual -> Parity.compare(reference, actual, manifest.tolerance) }
        } else {
            null
        }
        return state.value.copy(result = RunResult(outputs, seconds, comparisons))
    }

    /** Gives the model's memory back. On the worker thread only. */
    fun release() {
        engine?.close()
        engine = null
    }

    private fun submit(work: () -> RunState) {
        state.set(state.value.copy(isBusy = true, error = null))
        worker.execute {
            val ended = try {
                work()
            } catch (@Suppress("TooGenericExceptionCaught") error: Exception) {
                // Shown as it is: the screen is where a user of this app looks first.
                state.value.copy(error = error.message ?: error.toString())
            }
            state.set(ended.copy(isBusy = false))
        }
    }

    private fun loaded(): InferenceEngine = engine ?: run {
        platform.prepareModel()
        platform.loadLibrary()
        platform.load(threads = 0, LoadMode.MMAP).engine.also { engine = it }
    }

    private fun reload(): InferenceEngine {
        release()
        return loaded()
    }

    private fun make(input: InputInfo, choice: InputChoice, sizes: Map<String, Int>, golden: TensorData): TensorData {
        val shape = input.spec.shapeFor(sizes)
        if (choice == InputChoice.Golden) {
            if (!golden.shape.contentEquals(shape)) {
                throw TensorException("the example of ${input.spec.name} has the size ${golden.shape.joinToString(" × ")}")
            }
            return golden
        }
        val tensor = TensorData.allocate(input.spec.dtype, shape)
        return when (choice) {
            InputChoice.Golden, InputChoice.Zeros -> tensor.fill(0.0)
            InputChoice.Ones -> tensor.fill(1.0)
            is InputChoice.Random -> tensor.fillRandom(choice.seed)
            is InputChoice.Typed -> tensor.fillTyped(choice.text)
            is InputChoice.Photo -> tensor.also { requireNotNull(input.image).fill(choice.picture, it) }
        }
    }

    private fun exampleSizes(): Map<String, Int> {
        val step = manifest.golden.first().steps.first()
        return manifest.inputs.zip(step.inputs).flatMap { (input, tensor) ->
            input.spec.dims.mapIndexedNotNull { at, dim -> dim.name?.let { it to tensor.shape[at] } }
        }.toMap()
    }
}
