package dev.edgex.sample

import android.graphics.Bitmap
import android.view.LayoutInflater
import android.view.View
import android.view.ViewGroup
import android.widget.ImageView
import android.widget.ProgressBar
import android.widget.TextView
import dev.edgex.model.Activation
import dev.edgex.model.ModelManifest
import dev.edgex.model.OutputInfo
import dev.edgex.model.OutputReading
import dev.edgex.model.image.Detection
import dev.edgex.model.image.Picture
import dev.edgex.model.image.PictureLoader
import dev.edgex.model.tensor.TensorData

/** What a run gave: likeliest classes, pictures, boxes in a picture, a summary of every tensor, and how right it is. */
class ResultCards(private val parent: ViewGroup, private val manifest: ModelManifest) {
    private val inflater = LayoutInflater.from(parent.context)
    private val resources = parent.resources
    private var shown: RunResult? = null

    fun show(result: RunResult?) {
        if (result === shown) return
        shown = result
        parent.removeAllViews()
        if (result == null) return
        addLine(resources.getString(R.string.ran_in, formatSeconds(result.seconds)))
        if (result.seen != null && result.detections != null) addDetections(result.seen, result.detections)
        manifest.outputs.forEachIndexed { at, output ->
            if (output.image != null) {
                val picture = PictureLoader.toBitmap(output.image!!.read(result.outputs[at]))
                addPicture(picture, resources.getString(R.string.picture_output, output.spec.name))
            }
        }
        manifest.note?.let { addLine(it) }
        manifest.outputs.forEachIndexed { at, output ->
            addCard(output, result.outputs[at], result.comparisons?.get(at)?.let { ParityText(resources).describe(it) })
        }
    }

    /** A text as far as it is written: called for each token, so that nothing is made anew but the text. */
    fun show(written: WrittenText) {
        if (parent.childCount == 0) {
            addLine("")
            addLine("")
        }
        val rate = if (written.seconds > 0) written.tokens / written.seconds else 0.0
        lineAt(0).text = resources.getString(R.string.written, written.tokens, formatFigure(rate))
        lineAt(1).text = written.text
    }

    private fun lineAt(place: Int): TextView = parent.getChildAt(place).findViewById(R.id.line)

    private fun addLine(text: String) {
        val row = inflater.inflate(R.layout.line_row, parent, false)
        row.findViewById<TextView>(R.id.line).text = text
        parent.addView(row)
    }

    private fun addDetections(seen: Picture, detections: List<Detection>) {
        val title = resources.getQuantityString(R.plurals.found, detections.size, detections.size)
        val rows = addPicture(BoxDrawing.draw(PictureLoader.toBitmap(seen), detections), title)
        for (found in detections.take(BOXES)) addGuess(rows, found.label, found.score)
    }

    /** A card with a picture; the list below it. */
    private fun addPicture(picture: Bitmap, title: String): ViewGroup {
        val card = inflater.inflate(R.layout.picture_result, parent, false)
        card.findViewById<TextView>(R.id.name).text = title
        card.findViewById<ImageView>(R.id.picture).setImageBitmap(picture)
        parent.addView(card)
        return card.findViewById(R.id.rows)
    }

    private fun addCard(output: OutputInfo, tensor: TensorData, parity: String?) {
        val card = inflater.inflate(R.layout.output_card, parent, false)
        card.findViewById<TextView>(R.id.name).text = output.spec.name
        card.findViewById<TextView>(R.id.spec).text =
            resources.getString(R.string.tensor_line, tensor.dtype.label, tensor.shape.joinToString(" × "))
        card.findViewById<TextView>(R.id.values).text = describe(tensor)
        card.findViewById<TextView>(R.id.parity).apply {
            text = parity
            visibility = if (parity == null) View.GONE else View.VISIBLE
        }
        if (output.activation != null && tensor.size > 0) addGuesses(card.findViewById(R.id.guesses), output, tensor)
        parent.addView(card)
    }

    /** Of the first row only: a batch of many would not fit a screen. */
    private fun addGuesses(list: ViewGroup, output: OutputInfo, tensor: TensorData) {
        val isLogits = output.activation == Activation.LOGITS
        for (guess in OutputReading.topGuesses(tensor, row = 0, manifest.labels, isLogits, GUESSES)) {
            addGuess(list, guess.label, guess.probability)
        }
    }

    private fun addGuess(list: ViewGroup, label: String, probability: Double) {
        val row = inflater.inflate(R.layout.guess_row, list, false)
        val percent = formatPercent(probability)
        row.findViewById<TextView>(R.id.label).text = label
        row.findViewById<TextView>(R.id.percent).text = percent
        row.findViewById<ProgressBar>(R.id.bar).apply {
            max = BAR
            progress = (probability * BAR).toInt()
        }
        row.contentDescription = resources.getString(R.string.guess, label, percent)
        list.addView(row)
    }

    private fun describe(tensor: TensorData): String {
        val summary = OutputReading.summarize(tensor)
        val figures = resources.getString(
            R.string.summary, formatFigure(summary.min), formatFigure(summary.max), formatFigure(summary.mean),
        )
        val odd = if (summary.notFinite > 0) "\n" + resources.getString(R.string.not_finite, summary.notFinite) else ""
        val more = if (tensor.size > summary.first.size) " …" else ""
        return figures + odd + "\n" + summary.first.joinToString(" ") { formatFigure(it) } + more
    }

    private companion object {
        const val GUESSES = 5
        const val BOXES = 20
        const val BAR = 1000
    }
}
