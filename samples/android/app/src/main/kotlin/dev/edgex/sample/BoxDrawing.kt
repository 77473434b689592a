package dev.edgex.sample

import android.graphics.Bitmap
import android.graphics.Canvas
import android.graphics.Paint
import dev.edgex.model.image.Detection

/** Boxes on a copy of a picture, with a colour for each class; their names stand below the picture. */
object BoxDrawing {
    private val COLOURS = intArrayOf(0xffe6194b.toInt(), 0xff3cb44b.toInt(), 0xff4363d8.toInt(), 0xfff58231.toInt(), 0xff911eb4.toInt())
    private const val LINES = 160f

    fun draw(picture: Bitmap, detections: List<Detection>): Bitmap {
        val drawn = picture.copy(Bitmap.Config.ARGB_8888, true)
        val canvas = Canvas(drawn)
        val paint = Paint().apply {
            style = Paint.Style.STROKE
            strokeWidth = maxOf(1f, drawn.width / LINES)
        }
        for (found in detections) {
            paint.color = COLOURS[found.index.mod(COLOURS.size)]
            canvas.drawRect(
                (found.left * drawn.width).toFloat(), (found.top * drawn.height).toFloat(),
                (found.right * drawn.width).toFloat(), (found.bottom * drawn.height).toFloat(), paint,
            )
        }
        return drawn
    }
}
