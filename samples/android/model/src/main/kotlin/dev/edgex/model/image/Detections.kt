package dev.edgex.model.image

import dev.edgex.model.OutputReading
import dev.edgex.model.tensor.TensorData
import kotlin.math.exp
import kotlin.math.max
import kotlin.math.min

/** One thing that was found; its box is in shares of the picture's width and height, from the top left corner. */
data class Detection(
    val index: Int,
    val label: String,
    val score: Double,
    val left: Double,
    val top: Double,
    val right: Double,
    val bottom: Double,
) {
    /** The share of the area that two boxes cover which both do. */
    fun overlap(other: Detection): Double {
        val width = min(right, other.right) - max(left, other.left)
        val height = min(bottom, other.bottom) - max(top, other.top)
        if (width <= 0 || height <= 0) return 0.0
        return width * height / (area + other.area - width * height)
    }

    private val area get() = (right - left) * (bottom - top)
}

/** What the four numbers of a box are. */
enum class BoxFormat(val label: String) { XYXY("xyxy"), YXYX("yxyx"), XYWH("xywh"), CXCYWH("cxcywh") }

enum class ScoreActivation(val label: String) { NONE("none"), SIGMOID("sigmoid"), SOFTMAX("softmax") }

/**
 * How the outputs of a detector hold its boxes, as the model card says.
 *
 * Boxes are `[N, 4]`, scores `[N]` or `[N, classes]`, classes `[N]`, each with a dimension for the batch before it or not;
 * the numbers here are places among the outputs. [inPixels] is of the model's input, else boxes are in shares. Where
 * [maxOverlap] is set, of boxes of one class that overlap by more only the best stays.
 */
data class DetectionFormat(
    val boxes: Int,
    val scores: Int,
    val classes: Int?,
    val format: BoxFormat,
    val inPixels: Boolean,
    val activation: ScoreActivation,
    val background: Int?,
    val minScore: Double,
    val maxOverlap: Double?,
) {
    /** What was found in the first picture of a batch, best first. [height] and [width] are of the model's input. */
    fun read(outputs: List<TensorData>, height: Int, width: Int, labels: List<String>): List<Detection> {
        val boxes = outputs[boxes]
        val count = boxes.shape[boxes.shape.size - 2]
        val scores = outputs[scores]
        val perBox = if (count == 0) 0 else scores.size / (batchOf(boxes) * count)
        val found = (0 until count).mapNotNull { at ->
            val (index, score) = best(scores, at, perBox, outputs)
            if (score < minScore) null else box(boxes, at, height, width, index, labels.getOrNull(index) ?: "class $index", score)
        }.sortedByDescending { it.score }
        return if (maxOverlap == null) found else suppress(found, maxOverlap)
    }

    private fun batchOf(boxes: TensorData) = if (boxes.shape.size == 3) boxes.shape[0] else 1

    /** Class and score of a box. */
    private fun best(scores: TensorData, at: Int, perBox: Int, outputs: List<TensorData>): Pair<Int, Double> {
        val raw = DoubleArray(perBox) { scores[at * perBox + it] }
        val values = when (activation) {
            ScoreActivation.NONE -> raw
            ScoreActivation.SIGMOID -> DoubleArray(perBox) { 1 / (1 + exp(-raw[it])) }
            ScoreActivation.SOFTMAX -> OutputReading.softmax(raw)
        }
        val index = values.indices.filter { perBox == 1 || it != background }.maxByOrNull { values[it] } ?: return 0 to 0.0
        return (if (classes == null) index else outputs[classes][at].toInt()) to values[index]
    }

    private fun box(boxes: TensorData, at: Int, height: Int, width: Int, index: Int, label: String, score: Double): Detection {
        val (a, b, c, d) = List(4) { boxes[at * 4 + it] }
        val corners = when (format) {
            BoxFormat.XYXY -> listOf(a, b, c, d)
            BoxFormat.YXYX -> listOf(b, a, d, c)
            BoxFormat.XYWH -> listOf(a, b, a + c, b + d)
            BoxFormat.CXCYWH -> listOf(a - c / 2, b - d / 2, a + c / 2, b + d / 2)
        }
        val (x, y) = if (inPixels) width.toDouble() to height.toDouble() else 1.0 to 1.0
        return Detection(index, label, score, corners[0] / x, corners[1] / y, corners[2] / x, corners[3] / y)
    }

    private fun suppress(sorted: List<Detection>, limit: Double): List<Detection> {
        val kept = ArrayList<Detection>()
        for (box in sorted) if (kept.none { it.index == box.index && it.overlap(box) > limit }) kept += box
        return kept
    }
}
