package dev.edgex.sample

import android.content.Context
import android.graphics.Canvas
import android.graphics.Paint
import android.util.AttributeSet
import android.view.View
import dev.edgex.model.measure.Statistics

/** How the samples spread: a bar for each part of their range. Read aloud by its content description. */
class HistogramView(context: Context, attributes: AttributeSet?) : View(context, attributes) {
    private val paint = Paint().apply { color = context.getColor(R.color.accent) }
    private var counts = IntArray(0)

    fun show(samples: DoubleArray, description: String) {
        counts = Statistics.histogram(samples, BINS)
        contentDescription = description
        invalidate()
    }

    override fun onDraw(canvas: Canvas) {
        super.onDraw(canvas)
        val highest = counts.maxOrNull() ?: return
        if (highest == 0) return
        val bar = width.toFloat() / counts.size
        for ((at, count) in counts.withIndex()) {
            val top = height * (1 - count.toFloat() / highest)
            canvas.drawRect(at * bar, top, (at + 1) * bar - GAP, height.toFloat(), paint)
        }
    }

    private companion object {
        const val BINS = 40
        const val GAP = 1f
    }
}
