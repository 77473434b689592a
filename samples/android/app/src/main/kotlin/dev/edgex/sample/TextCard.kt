package dev.edgex.sample

import android.view.LayoutInflater
import android.view.ViewGroup
import android.widget.EditText

/** A text of which the library's tokenizer makes all inputs, or a prompt; [onText] is told what was typed. */
class TextCard(parent: ViewGroup, hint: Int, text: String?, private val onText: (String) -> Unit) : InputCard {
    private val view = LayoutInflater.from(parent.context).inflate(R.layout.text_card, parent, false)
    private val typed = view.findViewById<EditText>(R.id.typed)

    init {
        // What was typed outlives the screen in the runner, not in the view.
        typed.isSaveEnabled = false
        typed.setHint(hint)
        typed.setText(text)
        parent.addView(view)
    }

    override fun commit(): Boolean {
        onText(typed.text.toString())
        return true
    }
}
