package dev.edgex.sample

import android.view.LayoutInflater
import android.view.View
import android.view.ViewGroup
import android.widget.ProgressBar
import android.widget.TextView
import dev.edgex.sample.core.Activation
import dev.edgex.sample.core.AppManifest
import dev.edgex.sample.core.OutputInfo
import dev.edgex.sample.core.Outputs
import dev.edgex.sample.core.TensorData

/** What a run gave: the likeliest classes of a classification, a summary of any other tensor, and how right it is. */
class ResultCards(private val parent: ViewGroup, private val manifest: AppManifest) {
    private val inflater = LayoutInflater.from(parent.context)
    private val resources = parent.resources
    private var shown: RunResult? = null

    fun show(result: RunResult?) {
        if (result === shown) return
        shown = result
        parent.removeAllViews()
        if (result == null) return
        val latency = inflater.inflate(R.layout.latency_row, parent, false)
        latency.findViewById<TextView>(R.id.latency).text = resources.getString(R.string.ran_in, formatSeconds(result.seconds))
        parent.addView(latency)
        manifest.outputs.forEachIndexed { at, output ->
            addCard(output, result.outputs[at], result.comparisons?.get(at)?.let { ParityText(resources).describe(it) })
        }
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
        for (guess in Outputs.topGuesses(tensor, row = 0, manifest.labels, isLogits, GUESSES)) {
            val row = inflater.inflate(R.layout.guess_row, list, false)
            val percent = formatPercent(guess.probability)
            row.findViewById<TextView>(R.id.label).text = guess.label
            row.findViewById<TextView>(R.id.percent).text = percent
            row.findViewById<ProgressBar>(R.id.bar).apply {
                max = BAR
                progress = (guess.probability * BAR).toInt()
            }
            row.contentDescription = resources.getString(R.string.guess, guess.label, percent)
            list.addView(row)
        }
    }

    private fun describe(tensor: TensorData): String {
        val summary = Outputs.summarize(tensor)
        val figures = resources.getString(
            R.string.summary, formatFigure(summary.min), formatFigure(summary.max), formatFigure(summary.mean),
        )
        val odd = if (summary.notFinite > 0) "\n" + resources.getString(R.string.not_finite, summary.notFinite) else ""
        val more = if (tensor.size > summary.first.size) " …" else ""
        return figures + odd + "\n" + summary.first.joinToString(" ") { formatFigure(it) } + more
    }

    private companion object {
        const val GUESSES = 5
        const val BAR = 1000
    }
}
