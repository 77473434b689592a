package dev.edgex.sample.job

import dev.edgex.model.JsonNode
import dev.edgex.model.engine.LoadMode
import dev.edgex.model.measure.BenchmarkSettings
import dev.edgex.model.tensor.DType
import org.json.JSONException

/** A tensor of a job: what it is called and of which type. */
data class JobTensor(val name: String, val dtype: DType)

/**
 * What `edgex --device adb` asks for: `job.json`, format `edgex.device-job/1`.
 *
 * [sequences] are shapes, `[sequence][step][input]`: each sequence starts from the model's initial state. [runs] are the
 * samples to take of the first one; 0 takes none, null about three seconds' worth. It names no file: names follow from places.
 */
class Job(
    val runId: String,
    val modelSha256: String,
    val modelBytes: Long,
    val isStateful: Boolean,
    val inputs: List<JobTensor>,
    val outputs: List<JobTensor>,
    val sequences: List<List<List<IntArray>>>,
    val threads: Int,
    val warmup: Int?,
    val runs: Int?,
    val loadMode: LoadMode,
    val wantsTrace: Boolean,
) {
    companion object {
        const val FORMAT = "edgex.device-job/1"
        const val MAX_RUNS = 100_000

        private val SHA256 = Regex("[0-9a-f]{64}")

        fun inputFile(sequence: Int, step: Int, input: Int) = "in-$sequence-$step-$input.bin"

        fun outputFile(sequence: Int, step: Int, output: Int) = "out-$sequence-$step-$output.bin"

        /** Throws [JSONException] that names the place of what is wrong. */
        fun parse(text: String): Job {
            val root = JsonNode.parse(text, "job")
            if (root["format"].text() != FORMAT) root["format"].wrong("\"$FORMAT\"")
            val model = root["model"]
            val inputs = root["inputs"].items().map(::parseTensor)
            return Job(
                runId = root["run_id"].text(),
                modelSha256 = model["sha256"].text().also { if (!SHA256.matches(it)) model["sha256"].wrong("a SHA-256") },
                modelBytes = model["bytes"].long(),
                isStateful = model["stateful"].bool(),
                inputs = inputs,
                outputs = root["outputs"].items().map(::parseTensor),
                sequences = root["sequences"].items().map { steps -> steps.items().map { parseStep(it, inputs.size) } }.also {
                    if (it.isEmpty() || it.any { steps -> steps.isEmpty() }) root["sequences"].wrong("sequences of steps")
                },
                threads = root["threads"].within(BenchmarkSettings.THREADS),
                warmup = root["warmup"].orNull { within(0..MAX_RUNS) },
                runs = root["runs"].orNull { within(0..MAX_RUNS) },
                loadMode = root["load_mode"].choice(LoadMode.entries) { it.label },
                wantsTrace = root["trace"].bool(),
            )
        }

        private fun parseTensor(node: JsonNode) =
            JobTensor(node["name"].text(), node["dtype"].choice(DType.entries) { it.label })

        private fun parseStep(node: JsonNode, count: Int): List<IntArray> {
            val shapes = node.items().map { shape -> shape.items().map { it.within(0..Int.MAX_VALUE) }.toIntArray() }
            if (shapes.size != count) node.wrong("a shape for each input")
            return shapes
        }

        private fun JsonNode.within(range: IntRange): Int = int().also { if (it !in range) wrong("a number in $range") }
    }
}
