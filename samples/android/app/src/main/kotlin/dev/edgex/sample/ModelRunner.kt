package dev.edgex.sample

import dev.edgex.model.AndroidPlatform
import dev.edgex.model.EdgeModel
import dev.edgex.model.InputInfo
import dev.edgex.model.ModelThread
import dev.edgex.model.detections
import dev.edgex.model.image.Detection
import dev.edgex.model.image.Picture
import dev.edgex.model.measure.CancelledException
import dev.edgex.model.measure.Comparison
import dev.edgex.model.measure.Parity
import dev.edgex.model.measure.ParityReport
import dev.edgex.model.tensor.TensorData
import dev.edgex.model.tensor.TensorException
import dev.edgex.model.tensor.elementCount
import dev.edgex.model.text.Finish
import dev.edgex.model.text.generate
import dev.edgex.model.text.idsOf
import java.util.concurrent.CopyOnWriteArrayList

/** Where the values of one input come from. */
sealed interface InputChoice {
    data object Golden : InputChoice

    data object Zeros : InputChoice

    data object Ones : InputChoice

    data class Random(val seed: Long) : InputChoice

    data class Typed(val text: String) : InputChoice

    /** All inputs are made of it, whichever of them this is the choice of. */
    data class Text(val text: String) : InputChoice

    data class Photo(val picture: Picture) : InputChoice

    /** From -1 to 1, as the microphone gave them. */
    class Sound(val samples: FloatArray) : InputChoice
}

/**
 * One run; [comparisons] are there where all inputs were the golden ones, [detections] where the model is a detector. [seen] is
 * the picture as the model was given it.
 */
class RunResult(
    val outputs: List<TensorData>,
    val seconds: Double,
    val comparisons: List<Comparison>?,
    val seen: Picture?,
    val detections: List<Detection>?,
)

/** What a language model has written so far, and in how many seconds; [finish] is there where it is whole. */
class WrittenText(val text: String, val tokens: Int, val seconds: Double, val finish: Finish?)

/** What the Run screen shows. */
data class RunState(
    val isBusy: Boolean = false,
    val parity: ParityReport? = null,
    val result: RunResult? = null,
    val written: WrittenText? = null,
    val error: String? = null,
)

/** Holds the chosen inputs, and asks the library for whatever the screens ask for. */
class ModelRunner(private val model: EdgeModel, private val platform: AndroidPlatform) {
    private val manifest = model.manifest
    val state = Watched(RunState())
    val choices: MutableList<InputChoice> = CopyOnWriteArrayList(manifest.inputs.map { InputChoice.Golden })

    /** For a language model: a text, or ids where there is no tokenizer. */
    var prompt = ""

    /** Of the microphone, where it is an input. */
    val sampleRate: Int get() = checkNotNull(manifest.microphone).sampleRate

    @Volatile
    private var isStopped = false

    /** Sizes of dynamic dimensions by name; at first those of the example. */
    val sizes: MutableMap<String, Int> = exampleSizes().toMutableMap()

    /** Replays the golden data, once. */
    fun proveOnce() {
        if (state.value.parity == null && state.value.error == null && !state.value.isBusy) prove()
    }

    fun prove() = submit {
        val parity = model.verifyOnDevice()
        state.value.copy(parity = parity)
    }

    /** Runs once on the chosen inputs; a language model goes on from the prompt. */
    fun run() {
        val sizes = sizes.toMap()
        submit { if (manifest.generation == null) runOnce(sizes) else write() }
    }

    /** Ends the text that is being written. */
    fun stop() {
        isStopped = true
    }

    fun useText(text: String) {
        val choice = if (text.isBlank()) InputChoice.Golden else InputChoice.Text(text)
        for (at in choices.indices) choices[at] = choice
    }

    private fun parseIds(text: String): List<Int> = text.split(' ', ',').filter { it.isNotBlank() }.map { word ->
        word.toIntOrNull() ?: throw TensorException("\"$word\" is no id")
    }

    private suspend fun write(): RunState {
        isStopped = false
        val ids = if (model.generation.tokenizer != null) model.idsOf(prompt) else parseIds(prompt)
        val text = StringBuilder()
        var tokens = 0
        val started = System.nanoTime()
        fun written(finish: Finish?) = WrittenText(text.toString(), tokens, (System.nanoTime() - started) / 1e9, finish)
        val finish = try {
            model.generate(ids, MAX_NEW) { token ->
                tokens++
                text.append(token.text ?: "${token.id} ")
                state.set(state.value.copy(written = written(null)))
                if (isStopped) throw CancelledException()
            }
        } catch (stopped: CancelledException) {
            Finish.LENGTH
        }
        return state.value.copy(written = written(finish))
    }

    /** Reads a picture, which may take a while, makes it the input at this place, and runs. */
    fun runOnPicture(at: Int, read: () -> Picture) {
        val sizes = sizes.toMap()
        submit {
            choices[at] = InputChoice.Photo(ModelThread.run(read))
            runOnce(sizes)
        }
    }

    /** Records as much sound as the input takes, makes it the input at this place, and runs. */
    fun runOnSound(at: Int) {
        val sizes = sizes.toMap()
        submit {
            val count = elementCount(manifest.inputs[at].spec.shapeFor(sizes)).toInt()
            choices[at] = InputChoice.Sound(ModelThread.run { Recorder.record(sampleRate, count) })
            runOnce(sizes)
        }
    }

    /** A model with state begins anew, so that equal inputs give equal outputs. */
    private suspend fun runOnce(sizes: Map<String, Int>): RunState {
        val chosen = choices.toList()
        val golden = ModelThread.run { platform.readGolden(manifest.golden.first().steps.first()) }
        val text = chosen.firstOrNull() as? InputChoice.Text
        val inputs = if (text != null) model.tensorsOf(text.text) else ModelThread.run {
            manifest.inputs.mapIndexed { at, input -> make(input, chosen[at], sizes, golden.inputs[at]) }
        }
        model.reset()
        val found = model.run(inputs)
        val comparisons = if (chosen.all { it == InputChoice.Golden }) {
            golden.outputs.zip(found.outputs) { reference, actual -> Parity.compare(reference, actual, manifest.tolerance) }
        } else {
            null
        }
        val seen = manifest.imageInput?.image?.read(inputs.single())
        val detections = manifest.detection?.let { model.detections(found, inputs.single()) }
        return state.value.copy(result = RunResult(found.outputs, found.seconds, comparisons, seen, detections))
    }

    /** From the main thread; the work suspends while the library is busy. */
    private fun submit(work: suspend () -> RunState) {
        state.set(state.value.copy(isBusy = true, error = null))
        launch(work) { result ->
            // Shown as it is: the screen is where a user of this app looks first.
            val ended = result.getOrElse { state.value.copy(error = it.message ?: it.toString()) }
            state.set(ended.copy(isBusy = false))
        }
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
            is InputChoice.Text -> throw TensorException("text makes all inputs at once")
            is InputChoice.Sound -> tensor.also { for (at in 0 until it.size) it[at] = choice.samples[at].toDouble() }
            is InputChoice.Photo -> tensor.also { requireNotNull(input.image).fill(choice.picture, it) }
        }
    }

    private companion object {
        const val MAX_NEW = 256
    }

    private fun exampleSizes(): Map<String, Int> {
        val step = manifest.golden.first().steps.first()
        return manifest.inputs.zip(step.inputs).flatMap { (input, tensor) ->
            input.spec.dims.mapIndexedNotNull { at, dim -> dim.name?.let { it to tensor.shape[at] } }
        }.toMap()
    }
}
