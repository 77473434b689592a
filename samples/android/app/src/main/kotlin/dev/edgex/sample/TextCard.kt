package dev.edgex.sample

import android.view.LayoutInflater
import android.view.ViewGroup
import android.widget.EditText

/** A text of which the library's tokenizer makes all inputs; the example where nothing is typed. */
class TextCard(parent: ViewGroup, private val model: ModelRunner) : InputCard {
    private val view = LayoutInflater.from(parent.context).inflate(R.layout.text_card, parent, false)
    private val typed = view.findViewById<EditText>(R.id.typed)

    init {
        // What was typed outlives the screen in the runner, not in the view.
        typed.isSaveEnabled = false
        (model.choices.first() as? InputChoice.Text)?.let { typed.setText(it.text) }
        parent.addView(view)
    }

    override fun commit(): Boolean {
        val text = typed.text.toString()
        val choice = if (text.isBlank()) InputChoice.Golden else InputChoice.Text(text)
        for (at in model.choices.indices) model.choices[at] = choice
        return true
    }
}
