package dev.edgex.model.image

import dev.edgex.model.Samples.tensor
import org.junit.Assert.assertEquals
import org.junit.Assert.assertTrue
import org.junit.Test

class DetectionsTest {
    private val plain = DetectionFormat(
        boxes = 0, scores = 1, classes = null, format = BoxFormat.XYXY, inPixels = true, activation = ScoreActivation.NONE,
        background = null, minScore = 0.5, maxOverlap = null,
    )

    @Test
    fun `a box is the same in every format`() {
        val coded = mapOf(
            BoxFormat.XYXY to doubleArrayOf(10.0, 20.0, 30.0, 60.0),
            BoxFormat.YXYX to doubleArrayOf(20.0, 10.0, 60.0, 30.0),
            BoxFormat.XYWH to doubleArrayOf(10.0, 20.0, 20.0, 40.0),
            BoxFormat.CXCYWH to doubleArrayOf(20.0, 40.0, 20.0, 40.0),
        )
        for ((format, numbers) in coded) {
            val outputs = listOf(tensor(*numbers, shape = intArrayOf(1, 1, 4)), tensor(0.125, 0.875, shape = intArrayOf(1, 1, 2)))
            val found = plain.copy(format = format).read(outputs, height = 80, width = 40, labels = listOf("cat", "dog")).single()
            assertEquals(Detection(1, "dog", 0.875, 0.25, 0.25, 0.75, 0.75), found)
        }
    }

    @Test
    fun `classes of their own, shares, and boxes that nobody is sure of`() {
        val outputs = listOf(
            tensor(0.0, 0.0, 0.5, 1.0, 0.0, 0.0, 1.0, 1.0, shape = intArrayOf(2, 4)),
            tensor(0.75, 0.25, shape = intArrayOf(2)),
            tensor(7.0, 1.0, shape = intArrayOf(2)),
        )
        val found = plain.copy(classes = 2, inPixels = false).read(outputs, 10, 10, labels = listOf("cat"))
        assertEquals(listOf(Detection(7, "class 7", 0.75, 0.0, 0.0, 0.5, 1.0)), found)
    }

    @Test
    fun `of boxes of one class that overlap only the best stays`() {
        val boxes = tensor(0.0, 0.0, 4.0, 4.0, 0.0, 0.0, 4.0, 3.0, 5.0, 5.0, 9.0, 9.0, shape = intArrayOf(3, 4))
        val scores = tensor(0.625, 0.875, 0.75, shape = intArrayOf(3, 1))
        val format = plain.copy(maxOverlap = 0.5)
        assertEquals(listOf(0.875, 0.75), format.read(listOf(boxes, scores), 10, 10, emptyList()).map { it.score })
        assertEquals(0.75, format.copy(maxOverlap = 1.0).read(listOf(boxes, scores), 10, 10, emptyList()).let { it[0].overlap(it[2]) }, 1e-12)
    }

    @Test
    fun `logits become probabilities, and the background is nothing`() {
        val boxes = tensor(0.0, 0.0, 1.0, 1.0, shape = intArrayOf(1, 1, 4))
        val softmax = plain.copy(activation = ScoreActivation.SOFTMAX, background = 2, minScore = 0.0)
        val found = softmax.read(listOf(boxes, tensor(0.0, 1.0, 5.0, shape = intArrayOf(1, 1, 3))), 1, 1, emptyList()).single()
        assertEquals(1, found.index)
        assertTrue(found.score < 0.05)
        val sigmoid = plain.copy(activation = ScoreActivation.SIGMOID)
        assertEquals(0.5, sigmoid.read(listOf(boxes, tensor(0.0, shape = intArrayOf(1, 1))), 1, 1, emptyList()).single().score, 0.0)
        val none = listOf(tensor(shape = intArrayOf(1, 0, 4)), tensor(shape = intArrayOf(1, 0, 3)))
        assertTrue(plain.read(none, 1, 1, emptyList()).isEmpty())
    }
}
