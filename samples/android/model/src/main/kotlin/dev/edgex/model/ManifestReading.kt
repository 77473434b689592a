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
import dev.edgex.model.tensor.TensorSpec
import dev.edgex.model.text.AddedToken
import dev.edgex.model.text.BytePairFormat
import dev.edgex.model.text.GenerationFormat
import dev.edgex.model.text.Sampling
import dev.edgex.model.text.TextFormat

/** The text of a `manifest.json` as [ModelManifest]. What is wrong with it is named with its place. */
internal object ManifestReading {
    fun parse(text: String): ModelManifest {
        val root = JsonNode.parse(text, "manifest")
        if (root["format"].text() != ModelManifest.FORMAT) root["format"].wrong("\"${ModelManifest.FORMAT}\"")
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
            generation = root["generation"].orNull(::parseGeneration),
            microphone = root["microphone"].orNull { MicrophoneFormat(this["input"].text(), this["sample_rate"].int()) },
            state = root["state"].items().map { StateInfo(parseSpec(it), parseTensor(it)) },
            provider = root["provider"].orNull { members().mapValues { it.value.text() } },
            note = root["note"].orNull { text() },
            golden = root["golden"].items().map(::parseCase),
            goldenLeftOut = root["golden_left_out"].int(),
        )
    }

    private fun parseModel(node: JsonNode) = ModelInfo(
        name = node["name"].text(),
        target = node["target"].text(),
        precision = node["precision"].text(),
        digest = node["digest"].text(),
        source = node["source"].choice(ModelSource.entries) { it.label },
        method = node["method"].text(),
        fileName = node["file"].text(),
        fileBytes = node["file_bytes"].long(),
        sha256 = node["sha256"].text(),
        weights = node["weights"].orNull { WeightsFile(this["file"].text(), this["sha256"].text()) },
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
        AssetTensor(node["file"].text(), node["shape"].items().map { it.int() }.toIntArray())

    private fun parseGeneration(node: JsonNode) = GenerationFormat(
        vocabulary = node["vocabulary"].int(),
        context = node["context"].orNull { int() },
        chunk = node["chunk"].int(),
        begins = node["begins"].items().map { it.int() },
        ends = node["ends"].items().map { it.int() }.toSet(),
        sampling = node["sampling"].run {
            Sampling(
                this["temperature"].double(), this["top_k"].int(), this["top_p"].double(), this["repetition_penalty"].double(),
            )
        },
        tokenizer = node["tokenizer"].orNull(::parseBytePairs),
    )

    private fun parseBytePairs(node: JsonNode) = BytePairFormat(
        vocabularyFile = node["vocabulary"].text(),
        mergesFile = node["merges"].text(),
        splits = node["splits"].items().map { it.text() },
        composes = node["composes"].bool(),
        leadingSpace = node["leading_space"].bool(),
        wholeWords = node["whole_words"].bool(),
        added = node["added"].items().map { AddedToken(it["token"].text(), it["id"].int(), it["special"].bool()) },
    )
}
