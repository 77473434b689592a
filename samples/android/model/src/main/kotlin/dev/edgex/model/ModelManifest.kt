package dev.edgex.model

import dev.edgex.model.engine.CarriedState
import dev.edgex.model.engine.ModelProgram
import dev.edgex.model.image.DetectionFormat
import dev.edgex.model.image.PictureFormat
import dev.edgex.model.measure.Tolerance
import dev.edgex.model.tensor.Dim
import dev.edgex.model.tensor.TensorData
import dev.edgex.model.tensor.TensorException
import dev.edgex.model.tensor.TensorSpec
import dev.edgex.model.text.GenerationFormat
import dev.edgex.model.text.TextFormat
import java.io.File
import org.json.JSONException

/** Where the model's file comes from: the app itself or a pack installed with it, adb, or a pack that Google Play brings later. */
enum class ModelSource(val label: String) { ASSET("asset"), PUSH("push"), PACK("pack") }

enum class Activation(val label: String) { LOGITS("logits"), PROBABILITIES("probabilities") }

/** The model's file and what is known of it. Sizes are in bytes; [portableOperators] is null for engines without such. */
data class ModelInfo(
    val name: String,
    val target: String,
    val precision: String,
    val digest: String,
    val source: ModelSource,
    val method: String,
    val fileName: String,
    val fileBytes: Long,
    val sha256: String,
    val weights: WeightsFile?,
    val artifactBytes: Long,
    val nativeBytes: Long,
    val plannedArenaBytes: Long?,
    val backends: List<String>,
    val portableOperators: Int?,
    val parameters: Long?,
    val isStateful: Boolean,
    val description: String?,
)

/** A second file that the model's file names, with weights beyond what one file can hold. */
data class WeightsFile(val fileName: String, val sha256: String)

/** What a run gives the next as [spec], at first the [values]; for engines whose files keep no state. */
data class StateInfo(val spec: TensorSpec, val values: AssetTensor)

/** An input of sound: one channel, [sampleRate] values a second from -1 to 1. */
data class MicrophoneFormat(val input: String, val sampleRate: Int)

/** The engine by its name in edgex, the version that proved the model, and the [library] of this app with its version, [aar]. */
data class Versions(
    val edgex: String,
    val engine: String,
    val exporter: String,
    val library: String,
    val aar: String,
    val flavor: String,
)

/** An input; [image] says how a picture becomes it, null for tensors that are no pictures. */
data class InputInfo(val spec: TensorSpec, val image: PictureFormat?)

/** An output; [activation] is set where it holds rows of one score for each label, [image] where it holds pictures. */
data class OutputInfo(val spec: TensorSpec, val activation: Activation?, val image: PictureFormat?)

/** The values of a tensor: a file beside the manifest. */
data class AssetTensor(val file: String, val shape: IntArray)

data class GoldenStep(val inputs: List<AssetTensor>, val outputs: List<AssetTensor>)

/** Who gave the golden outputs: the float model, or PyTorch running the quantized program where float says nothing. */
enum class Reference(val label: String) { EAGER("eager"), QUANTIZED("quantized") }

/** Steps that run in a row on a freshly loaded model, what PyTorch answered, and a limit of their own if they have one. */
data class GoldenCase(val name: String, val reference: Reference, val minSqnrDb: Double?, val steps: List<GoldenStep>)

/**
 * `assets/edgex/NAME/manifest.json`, format `edgex.android-model/1`: all that this library knows of its model.
 *
 * [detection] says how boxes are coded, where the model card does; [text] how text becomes all inputs, where there is a
 * tokenizer; [generation] is there for language models, [microphone] where an input is sound that the app may record. [note] is
 * a sentence where nothing says what the outputs are.
 */
data class ModelManifest(
    val model: ModelInfo,
    val versions: Versions,
    val tolerance: Tolerance,
    val quantizedTolerance: Tolerance?,
    val inputs: List<InputInfo>,
    val outputs: List<OutputInfo>,
    val labels: List<String>,
    val detection: DetectionFormat?,
    val text: TextFormat?,
    val generation: GenerationFormat?,
    val microphone: MicrophoneFormat?,
    val state: List<StateInfo>,
    val provider: Map<String, String>?,
    val note: String?,
    val golden: List<GoldenCase>,
    val goldenLeftOut: Int,
) {
    /** The only input, where it is a picture. */
    val imageInput: InputInfo? get() = inputs.singleOrNull()?.takeIf { it.image != null }

    /** The input that the microphone may fill. */
    val soundInput: InputInfo? get() = inputs.firstOrNull { it.spec.name == microphone?.input }

    /** Dimensions whose size can be chosen, each name once. */
    val dynamicDims: List<Dim> get() = inputs.flatMap { it.spec.dims }.filter { it.isDynamic }.distinctBy { it.name }

    /** What an engine loads from this file; [read] gives the initial values of state that is carried. */
    fun program(file: File, read: (StateInfo) -> TensorData) =
        ModelProgram(file, model.method, inputs.map { it.spec.name }, state.map { CarriedState(it.spec.name, read(it)) }, provider)

    /** What a case is held to. */
    fun toleranceOf(case: GoldenCase): Tolerance =
        (quantizedTolerance?.takeIf { case.reference == Reference.QUANTIZED } ?: tolerance).let {
            if (case.minSqnrDb == null) it else it.copy(minSqnrDb = case.minSqnrDb, atol = null, rtol = null)
        }

    /** Refuses inputs that the model does not take, before an engine sees them. */
    fun check(given: List<TensorData>) {
        fun refuse(what: String): Nothing = throw TensorException(what)
        if (given.size != inputs.size) refuse("${given.size} inputs were given, the model takes ${inputs.size}")
        val sizes = HashMap<String, Int>()
        for ((input, tensor) in inputs.zip(given)) {
            val spec = input.spec
            if (tensor.dtype != spec.dtype) refuse("${spec.name} is ${spec.dtype.label}, not ${tensor.dtype.label}")
            spec.refusal(tensor.shape)?.let { refuse(it) }
            for ((dim, size) in spec.dims.zip(tensor.shape.asList())) {
                val other = sizes.getOrPut(dim.name ?: continue) { size }
                if (other != size) refuse("${dim.name} is $size in ${spec.name}, and $other in an input before it")
            }
        }
    }

    companion object {
        const val FORMAT = "edgex.android-model/1"

        /** Throws [JSONException] that names the place of what is wrong. */
        fun parse(text: String): ModelManifest = ManifestReading.parse(text).also { it.checkGolden() }
    }

    private fun checkGolden() {
        fun refuse(what: String): Nothing = throw JSONException("manifest: $what")
        if (inputs.isEmpty() || outputs.isEmpty()) refuse("there must be inputs and outputs")
        if (golden.isEmpty() || golden.any { it.steps.isEmpty() }) refuse("there must be golden data")
        for (case in golden) {
            for (step in case.steps) {
                if (step.inputs.size != inputs.size || step.outputs.size != outputs.size) {
                    refuse("the golden case \"${case.name}\" has another number of tensors than the model")
                }
                inputs.zip(step.inputs).forEach { (input, tensor) -> input.spec.refusal(tensor.shape)?.let { refuse(it) } }
            }
        }
    }
}
