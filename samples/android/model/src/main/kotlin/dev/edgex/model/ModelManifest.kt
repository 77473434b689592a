package dev.edgex.model

import dev.edgex.model.image.BoxFormat
import dev.edgex.model.image.ColorOrder
import dev.edgex.model.image.DetectionFormat
import dev.edgex.model.image.Layout
import dev.edgex.model.image.PictureFormat
import dev.edgex.model.image.ScoreActivation
import dev.edgex.model.measure.Tolerance
import dev.edgex.model.tensor.DType
import dev.edgex.model.tensor.Dim
import dev.edgex.model.tensor.TensorData
import dev.edgex.model.tensor.TensorException
import dev.edgex.model.tensor.TensorSpec
import dev.edgex.model.text.TextFormat
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
    val fileName: String,
    val fileBytes: Long,
    val sha256: String,
    val artifactBytes: Long,
    val nativeBytes: Long,
    val plannedArenaBytes: Long?,
    val backends: List<String>,
    val portableOperators: Int?,
    val parameters: Long?,
    val isStateful: Boolean,
    val description: String?,
)

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

/** A tensor of the golden data: a file beside the manifest. */
data class GoldenTensor(val file: String, val shape: IntArray)

data class GoldenStep(val inputs: List<GoldenTensor>, val outputs: List<GoldenTensor>)

/** Who gave the golden outputs: the float model, or PyTorch running the quantized program where float says nothing. */
enum class Reference(val label: String) { EAGER("eager"), QUANTIZED("quantized") }

/** Steps that run in a row on a freshly loaded model, what PyTorch answered, and a limit of their own if they have one. */
data class GoldenCase(val name: String, val reference: Reference, val minSqnrDb: Double?, val steps: List<GoldenStep>)

/**
 * `assets/edgex/NAME/manifest.json`, format `edgex.android-model/1`: all that this library knows of its model.
 *
 * [detection] says how boxes are coded, where the model card does; [text] how text becomes all inputs, where there is a
 * tokenizer; [note] is a sentence where nothing says what the outputs are.
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
    val note: String?,
    val golden: List<GoldenCase>,
    val goldenLeftOut: Int,
) {
    /** The only input, where it is a picture. */
    val imageInput: InputInfo? get() = inputs.singleOrNull()?.takeIf { it.image != null }

    /** Dimensions whose size can be chosen, each name once. */
    val dynamicDims: List<Dim> get() = inputs.flatMap { it.spec.dims }.filter { it.isDynamic }.distinctBy { it.name }

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
        fun parse(text: String): ModelManifest {
            val root = JsonNode.parse(text, "manifest")
            if (root["format"].text() != FORMAT) root["format"].wrong("\"$FORMAT\"")
            return ModelManifest(
                model = root["model"].run(::parseModel),
                versions = root["versions"].run(::parseVersions),
                tolerance = root["tolerance"].run(::parseTolerance),
                quantizedTolerance = root["quantized_tolerance"].orNull(::parseTolerance),
                inputs = root["inputs"].items().map { InputInfo(parseSpec(it), it["image"].orNull(::parseImage)) },
                outputs = root["outputs"].items().map(::parseOutput),
                labels = root["labels"].items().map { it.text() },
                detection = root["detection"].orNull(::parseDetection),
                text = root["text"].orNull(::parseText),
                note = root["note"].orNull { text() },
                golden = root["golden"].items().map(::parseCase),
                goldenLeftOut = root["golden_left_out"].int(),
            ).also { it.checkGolden() }
        }

        private fun parseModel(node: JsonNode) = ModelInfo(
            name = node["name"].text(),
            target = node["target"].text(),
            precision = node["precision"].text(),
            digest = node["digest"].text(),
            source = node["source"].choice(ModelSource.entries) { it.label },
            fileName = node["file"].text(),
            fileBytes = node["file_bytes"].long(),
            sha256 = node["sha256"].text(),
            artifactBytes = node["artifact_bytes"].long(),
            nativeBytes = node["native_bytes"].long(),
            plannedArenaBytes = node["planned_arena_bytes"].orNull { long() },
            backends = node["backends"].items().map { it.text() },
            portableOperators = node["portable_operators"].orNull { int() },
            parameters = node["parameters"].orNull { long() },
            isStateful = node["stateful"].bool(),
            description = node["description"].orNull { text() },
        )

        private fun parseTolerance(node: JsonNode) = Tolerance(
            node["min_sqnr_db"].double(),
            node["atol"].orNull { double() },
            node["rtol"].orNull { double() },
            node["min_equal"].double(),
        )

        private fun parseVersions(node: JsonNode) = Versions(
            edgex = node["edgex"].text(),
            engine = node["engine"].text(),
            exporter = node["exporter"].text(),
            library = node["library"].text(),
            aar = node["aar"].text(),
            flavor = node["flavor"].text(),
        )

        private fun parseSpec(node: JsonNode) = TensorSpec(
            node["name"].text(),
            node["dtype"].choice(DType.entries) { it.label },
            node["shape"].items().map { dim ->
                if (dim.isObject()) {
                    Dim(dim["name"].text(), dim["min"].int(), dim["max"].int())
                } else {
                    dim.int().let { Dim(null, it, it) }
                }
            },
        )

        private fun parseImage(node: JsonNode) = PictureFormat(
            node["layout"].choice(Layout.entries) { it.label },
            node["color"].choice(ColorOrder.entries) { it.label },
            node["mean"].items().map { it.double() },
            node["std"].items().map { it.double() },
        )

        private fun parseOutput(node: JsonNode) = OutputInfo(
            parseSpec(node),
            node["activation"].orNull { choice(Activation.entries) { it.label } },
            node["image"].orNull(::parseImage),
        )

        private fun parseDetection(node: JsonNode) = DetectionFormat(
            boxes = node["boxes"].int(),
            scores = node["scores"].int(),
            classes = node["classes"].orNull { int() },
            format = node["format"].choice(BoxFormat.entries) { it.label },
            inPixels = node["in_pixels"].bool(),
            activation = node["activation"].choice(ScoreActivation.entries) { it.label },
            background = node["background"].orNull { int() },
            minScore = node["min_score"].double(),
            maxOverlap = node["max_overlap"].orNull { double() },
        )

        private fun parseText(node: JsonNode) = TextFormat(
            ids = node["ids"].int(),
            mask = node["mask"].orNull { int() },
            types = node["types"].orNull { int() },
            vocabularyFile = node["vocabulary"].text(),
            unknown = node["unknown"].text(),
            prefix = node["prefix"].text(),
            longestWord = node["longest_word"].int(),
            cleans = node["cleans"].bool(),
            separatesChinese = node["separates_chinese"].bool(),
            stripsAccents = node["strips_accents"].bool(),
            lowercases = node["lowercases"].bool(),
            opens = node["opens"].items().map { it.int() },
            closes = node["closes"].items().map { it.int() },
            padding = node["padding"].int(),
        )

        private fun parseCase(node: JsonNode) = GoldenCase(
            node["name"].text(),
            node["reference"].choice(Reference.entries) { it.label },
            node["min_sqnr_db"].orNull { double() },
            node["steps"].items().map { step ->
                GoldenStep(step["inputs"].items().map(::parseTensor), step["outputs"].items().map(::parseTensor))
            },
        )

        private fun parseTensor(node: JsonNode) =
            GoldenTensor(node["file"].text(), node["shape"].items().map { it.int() }.toIntArray())
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
